package adapter

import (
	"strconv"
	"strings"
)

// baseLayer ends the name of a module that is wrapped once more: PEFT wraps a module for each of its parameters that target_parameters names, the first
// innermost.
const baseLayer = ".base_layer"

// parametersOf is how many parameters of a module, by PEFT's rule for names, the configuration targets.
func (c *Config) parametersOf(module string) (n int) {
	for strings.HasSuffix(module, baseLayer) {
		module = strings.TrimSuffix(module, baseLayer)
	}
	for _, p := range c.Parameters {
		if at := strings.LastIndexByte(p, '.'); at > 0 && (module == p[:at] || strings.HasSuffix(module, "."+p[:at])) {
			n++
		}
	}
	return n
}

// parameter finds out of how many matrices the stack is that a module's product changes, and the scale of it.
func (a *Adapter) parameter(name string, m *Module) error {
	within := name
	for strings.HasSuffix(within, baseLayer) {
		within = strings.TrimSuffix(within, baseLayer)
	}
	scale, rank, err := a.Config.scaleOf(within)
	if err != nil {
		return a.fail("%v", err)
	}
	if m.B.Cols%rank != 0 {
		return a.fail("module %s has products of %d rows, which are no multiple of the rank %d", name, m.B.Cols, rank)
	}
	m.Scale, m.Experts = scale, m.B.Cols/rank
	return nil
}

// OutputsFirst reports whether the version of PEFT that wrote the adapter is known to take a parameter's first dimension, behind that of experts, for its outputs:
// 0.19.1 and later do, those before take it for its inputs unless transformers told them otherwise.
func (c *Config) OutputsFirst() bool {
	var version [3]int
	for i, part := range strings.SplitN(c.PEFT, ".", 3) {
		end := 0
		for end < len(part) && part[end] >= '0' && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			return false
		}
		version[i] = n
	}
	later := version[0] > 0 || version[1] > 19 || version[1] == 19 && version[2] > 1
	return later || version[1] == 19 && version[2] == 1 && !strings.Contains(c.PEFT, "dev")
}

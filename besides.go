package ridge

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// beside compiles a drafter's graphs for the model's device, a nil one to nil, and reserves the memory that they take there, which its caller gives back
// when it closes them. If one cannot be compiled there are none.
func (m *Model) beside(graphs []*graph.Graph, files compile.Tensors, lim backend.Limits) (programs []*compile.Program, reserved int64, err error) {
	name := m.device.Info().Name
	reserved, err = m.runtime.place(name, func(others int64) (bytes int64, err error) {
		for _, g := range graphs {
			if g == nil {
				programs = append(programs, nil)
				continue
			}
			p, err := m.compileBeside(g, files, lim, others+bytes)
			if err != nil {
				return bytes, err
			}
			use := p.Memory()
			bytes += use.Weights + use.Caches + use.Arena
			programs = append(programs, p)
		}
		return bytes, nil
	})
	if err != nil {
		closeAll(programs)
		m.runtime.giveBack(name, reserved)
		return nil, 0, err
	}
	return programs, reserved, nil
}

// compileBeside compiles a graph for the model's device, which has so many bytes reserved for others.
func (m *Model) compileBeside(g *graph.Graph, files compile.Tensors, lim backend.Limits, others int64) (*compile.Program, error) {
	info := m.device.Info()
	g, err := pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: m.device}})
	if err != nil {
		return nil, err
	}
	weights := weightBytes([]*graph.Graph{g})
	if info.Name == cpuName {
		weights = 0 // many are the model's own, which are in memory once
	}
	if err := draftFits(m.device, g, lim, weights, others); err != nil {
		return nil, err
	}
	return compile.Compile(g, m.device, files, lim)
}

// closeAll closes the programs that there are.
func closeAll(programs []*compile.Program) {
	for _, p := range programs {
		if p != nil {
			p.Close()
		}
	}
}

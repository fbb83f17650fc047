package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/pass"
)

// cpuExperts is --n-cpu-moe, of how many first layers the experts stay on the CPU; --cpu-moe is of all.
type cpuExperts ridge.CPUExperts

func (n *cpuExperts) add(fl *pflag.FlagSet) {
	fl.Var(n, "n-cpu-moe", "with a GPU, of how many first layers the experts stay on the CPU while the rest of these layers is on the GPU; -ncmoe is the same")
	fl.Var((*allExperts)(n), "cpu-moe", "with a GPU, all experts stay on the CPU; -cmoe is the same")
	fl.Lookup("cpu-moe").NoOptDefVal = "true"
}

// Type implements pflag.Value.
func (*cpuExperts) Type() string { return "layers" }

// String implements pflag.Value.
func (n *cpuExperts) String() string {
	switch ridge.CPUExperts(*n) {
	case 0:
		return ""
	case ridge.AllCPUExperts:
		return "all"
	}
	return strconv.Itoa(int(*n))
}

// Set implements pflag.Value.
func (n *cpuExperts) Set(text string) error {
	layers, err := strconv.Atoi(text)
	switch {
	case text == "all":
		layers = int(ridge.AllCPUExperts)
	case text == "":
		layers = 0
	case err != nil || layers < 0:
		return fmt.Errorf("%q is no number of layers, 0 or more, and not all", text)
	}
	*n = cpuExperts(layers)
	return nil
}

// expertCache is --expert-cache, memory of the GPU for experts that stay on the CPU.
type expertCache ridge.ExpertCache

func (c *expertCache) add(fl *pflag.FlagSet) {
	fl.Var(c, "expert-cache", "with --cpu-moe, --n-cpu-moe or --gpu-layers auto: memory of the GPU for copies of the experts on the CPU that are used most, as 4GiB, or auto for what weights and the KV cache leave; they change as use does. Default: none")
}

// Type implements pflag.Value.
func (*expertCache) Type() string { return "size" }

// String implements pflag.Value.
func (c *expertCache) String() string {
	switch ridge.ExpertCache(*c) {
	case 0:
		return ""
	case ridge.AutoExpertCache:
		return "auto"
	}
	return size.Text(int64(*c))
}

// Set implements pflag.Value.
func (c *expertCache) Set(text string) error {
	switch text {
	case "":
		*c = 0
		return nil
	case "auto":
		*c = expertCache(ridge.AutoExpertCache)
		return nil
	}
	n, err := size.Parse(text)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is no size such as 4GiB, and not auto", text)
	}
	*c = expertCache(n)
	return nil
}

// slots is for how many experts of each layer of a graph the cache has room, where the second device has so many last layers without the experts of the first so many.
func (c expertCache) slots(g *graph.Graph, d division) (int, error) {
	if c == 0 {
		return 0, nil
	}
	if ridge.ExpertCache(c) == ridge.AutoExpertCache {
		return 0, errors.New("--expert-cache auto is what the KV cache of ridge run and ridge serve leaves; give a size here")
	}
	l := pass.WithoutExperts(g.Layers(), d.last, d.experts)
	each, most := l.SlotBytes(g)
	if most == 0 || int64(c) < each {
		return 0, fmt.Errorf("--expert-cache %s: one expert of each layer whose experts are on the CPU (--cpu-moe, --n-cpu-moe) takes %s", size.Text(int64(c)), size.Text(each))
	}
	return int(min(int64(c)/each, int64(most))), nil
}

// allExperts is --cpu-moe.
type allExperts cpuExperts

// Type implements pflag.Value. pflag takes a flag of this type without a value.
func (*allExperts) Type() string { return "bool" }

// IsBoolFlag has pflag and what prints usage treat it as a switch.
func (*allExperts) IsBoolFlag() bool { return true }

// String implements pflag.Value.
func (n *allExperts) String() string {
	return strconv.FormatBool(ridge.CPUExperts(*n) == ridge.AllCPUExperts)
}

// Set implements pflag.Value.
func (n *allExperts) Set(text string) error {
	all, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	if all {
		*n = allExperts(ridge.AllCPUExperts)
	} else if ridge.CPUExperts(*n) == ridge.AllCPUExperts {
		*n = 0
	}
	return nil
}

package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
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

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge/internal/quantize"
)

// quantizeMethods lists the methods of ridge quantize.
func quantizeMethods() []string {
	var names []string
	for _, m := range quantize.Methods {
		names = append(names, string(m))
	}
	return append(names, imatrixMethod)
}

// methodFlags are the flags of ridge quantize that some methods alone go by, and those methods.
var methodFlags = map[string][]string{
	"bits":        {"rtn", "gptq", "awq", "autoround", "magnitude", "wanda", "sparsegpt", imatrixMethod},
	"group":       {"rtn", "gptq", "awq", "autoround", "magnitude", "wanda", "sparsegpt"},
	"asymmetric":  {"rtn", "gptq", "awq", "autoround", "magnitude", "wanda", "sparsegpt"},
	"rotate":      {"rtn", "gptq", "awq", "smoothquant", "autoround"},
	"layout":      {"rtn", "gptq", "awq", "autoround", "magnitude", "wanda", "sparsegpt"},
	"lm-head":     {"rtn", "gptq", "autoround"},
	"act-order":   {"gptq"},
	"damping":     {"gptq"},
	"clip":        {"gptq"},
	"alpha":       {"smoothquant"},
	"sparsity":    {"magnitude", "wanda", "sparsegpt"},
	"type":        {imatrixMethod},
	"imatrix":     {imatrixMethod},
	"imatrix-out": {imatrixMethod},
	"json":        {"rtn", "gptq", "awq", "smoothquant", "autoround", "magnitude", "wanda", "sparsegpt"},
}

// checkMethodFlags refuses a method that there is not, and flags that were given and that it takes no notice of.
func checkMethodFlags(flags *pflag.FlagSet, method string) error {
	if all := quantizeMethods(); !slices.Contains(all, method) {
		return fmt.Errorf("quantize: there is no method %q; %s are possible", method, strings.Join(all, ", "))
	}
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if of, some := methodFlags[f.Name]; some && !slices.Contains(of, method) && err == nil {
			err = fmt.Errorf("quantize: --%s is of %s, and the method is %s; leave it out", f.Name, strings.Join(of, ", "), method)
		}
	})
	if err == nil && slices.Contains(methodFlags["sparsity"], method) && !flags.Changed("bits") {
		for _, name := range []string{"group", "asymmetric"} {
			if flags.Changed(name) {
				return fmt.Errorf("quantize: --%s is of numbers that are rounded, and %s leaves them as they are unless --bits says to how many bits", name, method)
			}
		}
	}
	if err == nil && flags.Changed("imatrix") {
		for _, name := range []string{"calib", "samples", "length"} {
			if flags.Changed(name) {
				return fmt.Errorf("quantize: --imatrix has the importances, and --%s is of a text that they are gathered from; leave one of them out", name)
			}
		}
	}
	return err
}

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/compile/earlyexit"
)

// addEarlyExit adds the flag for early exit.
func addEarlyExit(fl *pflag.FlagSet, e *ridge.EarlyExit) {
	fl.Var((*earlyExitFlag)(e), "early-exit", "layers after which tokens may leave the model, and how sure it must be of them, as layers=8,16,threshold=0.9: by how much the probability of the likeliest token must be more than that of the second, 0 to 1. Answers change; ridge eval --early-exit says by how much")
}

// earlyExitFlag reads layers=4,8,threshold=0.9.
type earlyExitFlag ridge.EarlyExit

// Type implements pflag.Value.
func (*earlyExitFlag) Type() string { return "exits" }

// String implements pflag.Value.
func (e *earlyExitFlag) String() string {
	if len(e.Layers) == 0 {
		return ""
	}
	return fmt.Sprintf("layers=%s,threshold=%g", strings.ReplaceAll(strings.Trim(fmt.Sprint(e.Layers), "[]"), " ", ","), e.Threshold)
}

// Set implements pflag.Value.
func (e *earlyExitFlag) Set(text string) error {
	var o ridge.EarlyExit
	name, given := "", false
	for part := range strings.SplitSeq(text, ",") {
		value := part
		if key, v, ok := strings.Cut(part, "="); ok {
			name, value = key, v
		}
		var err error
		switch name {
		case "layers":
			var n int
			n, err = strconv.Atoi(value)
			o.Layers = append(o.Layers, n)
		case "threshold":
			o.Threshold, err = strconv.ParseFloat(value, 64)
			given = true
		default:
			return fmt.Errorf("%q: layers=8,16,threshold=0.9 is possible", part)
		}
		if err != nil {
			return fmt.Errorf("%s: %q is no number", name, value)
		}
	}
	if !given {
		return fmt.Errorf("%q has no threshold; threshold=0.9 is possible", text)
	}
	if err := earlyexit.Options(o).Check(0); err != nil {
		return err
	}
	*e = earlyExitFlag(o)
	return nil
}

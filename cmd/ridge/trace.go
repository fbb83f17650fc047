package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/trace"
)

// traceFlags choose which requests come, and when.
type traceFlags struct {
	source          string
	first           int
	faster, shorter float64
}

func (f *traceFlags) add(cmd *cobra.Command, source string) {
	fl := cmd.Flags()
	fl.StringVar(&f.source, "trace", source, "requests: a file (Azure, Mooncake, AIBrix), or PROCESS:rate=R,n=N,in=TOKENS,out=TOKENS where the process is poisson, gamma, burst or constant and tokens are 512, 100-800 or 512/300 (lognormal)")
	fl.IntVar(&f.first, "first", 0, "only the first N requests of the trace; 0: all")
	fl.Float64Var(&f.faster, "faster", 1, "multiply the request rate by this")
	fl.Float64Var(&f.shorter, "shorter", 1, "divide the lengths of prompts and answers by this")
}

// load is the trace, scaled as the flags say.
func (f *traceFlags) load() (*trace.Trace, error) {
	if f.first < 0 {
		return nil, fmt.Errorf("--first is %d; 0 (all) or more is possible", f.first)
	}
	t, err := trace.Load(f.source)
	if err != nil {
		return nil, err
	}
	if f.first > 0 {
		t = t.First(f.first)
	}
	if f.faster != 1 {
		if t, err = t.Faster(f.faster); err != nil {
			return nil, err
		}
	}
	if f.shorter != 1 {
		t, err = t.Shorter(f.shorter)
	}
	return t, err
}

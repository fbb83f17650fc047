package main

import (
	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
)

// addEngine adds the settings of an engine that serves many.
func addEngine(cmd *cobra.Command, o *ridge.Options) {
	fl, e := cmd.Flags(), &o.Engine
	fl.IntVar(&o.Parallel, "parallel", 0, "requests that run at once; 0: 8")
	fl.IntVar(&e.MaxWaiting, "max-waiting", 0, "requests that wait at most, more get 429; 0: 4096")
	fl.IntVar(&e.StepTokens, "max-num-batched-tokens", 0, "tokens in a step; 0: 512")
	fl.StringVar((*string)(&e.Policy), "policy", "fcfs", "who goes first: fcfs, priority, or longest-prefix (most in the cache)")
	fl.StringVar(&e.Index, "prefix-index", "radix", "how cached beginnings of prompts are found: radix, hash, or none")
}

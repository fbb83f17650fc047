package main

import (
	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
)

// addDevice adds the flags that choose where to compute.
func addDevice(cmd *cobra.Command, o *ridge.Options) {
	cmd.Flags().StringVar(&o.Backend, "backend", "", "where to compute: cpu, cuda (cuda:1 is the second GPU; see ridge devices), or ref (slow, the definition of what is right); default cpu")
	cmd.Flags().IntVarP(&o.Threads, "threads", "t", 0, "CPU threads; 0: as many as this process may use")
	cmd.Flags().BoolVar(&o.Deterministic, "deterministic", false, "on the CPU, let no answer depend on the requests beside it, to the last bit; prompts then take a fifth to a third longer, unless the weights are in Q8_0")
}

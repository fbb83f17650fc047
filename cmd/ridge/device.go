package main

import "github.com/spf13/cobra"

// addDevice adds the flags that choose where to compute.
func addDevice(cmd *cobra.Command, backend *string, threads *int, deterministic *bool) {
	cmd.Flags().StringVar(backend, "backend", "", "where to compute: cpu, cuda (cuda:1 is the second GPU, cuda:2,3 are those of --tp 2; see ridge devices), or ref (the slow reference); default cpu")
	cmd.Flags().IntVarP(threads, "threads", "t", 0, "CPU threads; 0: as many as this process may use")
	cmd.Flags().BoolVar(deterministic, "deterministic", false, "on the CPU, compute batch-invariantly: answers do not depend on other requests in the batch, to the last bit; prompts then take a fifth to a third longer, unless the weights are in Q8_0")
}

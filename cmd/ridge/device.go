package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
)

// deviceFlags chooses where a command computes.
type deviceFlags struct {
	backend string
	threads int
}

func (f *deviceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.backend, "backend", "cpu", "where to compute: cpu, or ref (slow, the definition of what is right)")
	cmd.Flags().IntVarP(&f.threads, "threads", "t", 0, "CPU threads; 0: as many as this process may use")
}

// open opens the chosen device.
func (f *deviceFlags) open() (backend.Device, error) {
	if f.threads < 0 {
		return nil, fmt.Errorf("--threads is %d; 0 (all) or more is possible", f.threads)
	}
	switch f.backend {
	case "cpu":
		return cpu.New(cpu.Options{Threads: f.threads, Tier: os.Getenv("RIDGE_CPU")})
	case "ref":
		return ref.New(), nil
	}
	return nil, fmt.Errorf("--backend is %q; cpu and ref are possible", f.backend)
}

package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMPI has mpirun of MPICH and of Open MPI start ranks that exchange activations by MPI.
func TestMPI(t *testing.T) {
	ran := 0
	for _, start := range [][]string{{"mpirun.mpich"}, {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}} {
		if _, err := exec.LookPath(start[0]); err != nil {
			continue
		}
		ran++
		t.Run(start[0], func(t *testing.T) {
			for _, layout := range [][]string{{"--tp", "2"}, {"--pp", "2"}} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a guard against hanging only
				defer cancel()
				args := append(append(start[1:len(start):len(start)], "-n", "2", "ridge", "check", "--threads", "1", "--rendezvous", freeAddress(t), "--rank-transport", "mpi", "../../internal/check/testdata/llama-default"), layout...)
				cmd := exec.CommandContext(ctx, start[0], args...)
				cmd.Env = append(os.Environ(), secretVariable+"=the secret of a test")
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasPrefix(string(out), "ok ") {
					t.Errorf("%v: %v\n%s", layout, err, out)
				}
			}
		})
	}
	if ran == 0 {
		t.Skip("no MPI is installed (Debian: apt-get install mpich openmpi-bin)")
	}
}

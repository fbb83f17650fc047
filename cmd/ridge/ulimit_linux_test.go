package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestMemoryLimits: under an ulimit that the runtime could not live with, a command ends with a sentence and no stack trace.
func TestMemoryLimits(t *testing.T) {
	for limit, want := range map[string]string{
		"-v 2000000": "ridge: this process may use 1.91 GiB of memory (ulimit -v) and needs 2.00 GiB beside the model; raise the limit: ulimit -v 2097152\n",
		"-d 250000":  "ridge: this process may use 244.1 MiB of memory (ulimit -d) and needs 256.0 MiB beside the model; raise the limit: ulimit -d 262144\n",
	} {
		out, err := exec.Command("sh", "-c", "ulimit "+limit+" && exec ridge version").CombinedOutput()
		if strings.Contains(string(out), "fatal error") || strings.Contains(string(out), "pthread_create") {
			t.Skipf("ulimit %s: the runtime itself did not start here: %.80s", limit, out)
		}
		if err == nil || string(out) != want {
			t.Errorf("ulimit %s: %v, %q, want %q", limit, err, out, want)
		}
	}
}

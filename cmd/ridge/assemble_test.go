package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSaysThatKernelsAreAssembled: while a GPU's driver assembles a kernel for long, one line says so. The stand-in for the driver does until the
// line has come.
func TestSaysThatKernelsAreAssembled(t *testing.T) {
	t.Parallel()
	dir := standIn(t)
	enough := filepath.Join(dir, "enough")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a guard against hanging only
	defer cancel()
	cmd := exec.CommandContext(ctx, "ridge", "run", "--backend", "cuda", "--greedy", "--ignore-eos", "-n", "2", "hello")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "FAKE_WAIT="+enough)
	cmd.WaitDelay = time.Minute
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	for line := ""; !strings.HasPrefix(line, "ridge: assembling kernels for this GPU"); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("it ended without the line: %v", err)
		}
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || strings.Contains(string(rest), "assembling") {
		t.Errorf("the line came again, or reading failed (%v):\n%s", err, rest)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

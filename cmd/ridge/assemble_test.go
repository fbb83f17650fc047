package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSaysThatKernelsAreAssembled: while a GPU's driver assembles a kernel for long, one line says so. The stand-in for the driver does until the
// line has come.
func TestSaysThatKernelsAreAssembled(t *testing.T) {
	t.Parallel()
	dir := standIn(t)
	enough := filepath.Join(dir, "enough")
	cmd, lines := startOn(t, dir, "FAKE_WAIT="+enough, "run", "--backend", "cuda", "--greedy", "--ignore-eos", "-n", "2", "hello")
	for line := ""; !strings.HasPrefix(line, "ridge: assembling kernels for this GPU"); {
		var err error
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

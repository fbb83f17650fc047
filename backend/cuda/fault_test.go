package cuda

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rows"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestFault has a kernel write where no memory is, in a process of its own, since a GPU's context does not survive that. From then on
// every call is the same error, and nothing hangs.
func TestFault(t *testing.T) {
	if os.Getenv("RIDGE_TEST_FAULT") == "" {
		if _, err := Devices(); err != nil {
			t.Skipf("no GPU to test on: %v", err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestFault$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), "RIDGE_TEST_FAULT=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := testkit.Cases()
	c := all[slices.IndexFunc(all, func(c testkit.Case) bool { return c.Op == "Attention" })]
	g, w, lim, batches, err := c.Build(graph.F32, graph.F16, 1)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, d, w, lim)
	if err != nil {
		t.Fatal(err)
	}
	if err := prog.Run(batches[0]); err != nil {
		t.Fatal(err)
	}
	err = d.do(func() error {
		k, words, err := rows.Select(d.loader, 256)
		if err != nil {
			return err
		}
		p := &rows.SelectParams{X: 8, Y: 8, Words: words}
		p.Step.Counts, p.Step.LogitsIndices = 8, 8
		if err := driver.Launch(d.stream, k, driver.Grid{X: 4, Threads: 64}, p); err != nil {
			return err
		}
		return d.stream.Synchronize()
	})
	if !driver.IsFault(err) || !strings.Contains(err.Error(), "the GPU has faulted") {
		t.Fatalf("a kernel that reads address 8 gave %v", err)
	}
	start := time.Now()
	row := make([]float32, prog.Vocab())
	for name, again := range map[string]error{"Run": prog.Run(batches[0]), "Read": prog.Logits(row, 0, 1), "Copy": prog.CopyPage(0, 0, 0)} {
		if again == nil || !strings.Contains(again.Error(), "the GPU has faulted") {
			t.Errorf("%s after the fault gave %v", name, again)
		}
	}
	prog.Close()
	if err := d.Close(); err == nil {
		t.Error("closing a GPU that has faulted says nothing of it")
	}
	t.Logf("closed after %v", time.Since(start))
}

package cuda

import (
	"errors"
	"os"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// TestHiddenStates: hidden states that a program keeps become another's rows without a copy to the host. On the stand-in for the driver, which
// counts such copies.
func TestHiddenStates(t *testing.T) {
	downloads := os.Getenv("FAKE_DOWNLOADS")
	if downloads == "" {
		t.Skip("copies are counted on the stand-in for the driver")
	}
	d, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	lim := backend.Limits{Tokens: 16, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 4, Pages: 16}
	compiled := func(g *graph.Graph) *compile.Program {
		after, err := pass.Run(g, pass.All, pass.Options{Kernels: compile.Kernels{Device: d}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := compile.Compile(after, d, zeros{g}, lim)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	g, err := sequenceGraph("llama-3.2-1b", quant.Q4_0, graph.BF16)
	if err == nil {
		g, err = graph.KeepLayers(g, 1)
	}
	if err == nil {
		g, err = graph.KeepFinal(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	target := compiled(g)
	defer target.Close()
	b := graph.NewBuilder("reader", nil, graph.BF16, graph.BF16)
	var rows [2]*graph.Value
	for i := range rows {
		rows[i] = b.Input("rows", g.Kept[i].Axis)
	}
	if g, err = b.Finish(b.SelectRows("selected", b.Add("sum", rows[0], rows[1]))); err != nil {
		t.Fatal(err)
	}
	reader := compiled(g)
	defer reader.Close()
	batch := testkit.Sequence(testkit.Steps{{3, 1, 1}}, lim, 500, false, 1)[0]
	_ = os.Remove(downloads) // of tests before this one
	err = target.Run(batch)
	for i := range rows {
		to, from := reader.Input(i), target.Kept(i)
		err = errors.Join(err, to.Takes(from), reader.CopyRows(to, 0, from, 0, 3), reader.CopyRows(to, 3, from, 3, 2))
	}
	if err = errors.Join(err, reader.Run(batch)); errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("the source of one of its kernels is newer than the PTX; make ptx rebuilds that")
	}
	if err != nil {
		t.Fatal(err)
	}
	if copies, err := os.ReadFile(downloads); err == nil {
		t.Errorf("copies to the host of so many bytes:\n%s", copies)
	}
	if _, err := reader.Rows(make([]float32, 3*reader.Vocab()), 3); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(downloads); err != nil {
		t.Error("the stand-in has not counted the copy of what is read")
	}
}

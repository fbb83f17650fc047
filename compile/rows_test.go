package compile_test

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestKeptRows: hidden states that a program keeps, of chosen layers and final ones, reach another program's rows on the same device as they are, in
// whatever order they are copied, and stay while both run; and the logits are those without. A reader of chosen layers is the model cut off there.
func TestKeptRows(t *testing.T) {
	dir, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	lim := backend.Limits{Tokens: 8, Seqs: 2, Logits: 8, PageSize: 16, SeqPages: 1, Pages: 2}
	batch := testkit.Sequence(testkit.Steps{{5, 3}}, lim, 500, true, 1)[0]
	onCPU, err := cpu.New(cpu.Options{Threads: 2, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer onCPU.Close()
	for _, dev := range []backend.Device{ref.New(), onCPU} {
		info := dev.Info()
		run := func(g *graph.Graph) (*compile.Program, []float32) { return ran(t, g, dev, dir, lim, batch) }
		whole, err := dir.Model.Graph(model.Options{Act: info.Act, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		_, logits := run(whole)
		layers := []int{2, 5}
		g, err := graph.KeepLayers(whole, layers...)
		if err == nil {
			g, err = graph.KeepFinal(g)
		}
		if err != nil {
			t.Fatal(err)
		}
		target, same := run(g)
		if !slices.Equal(same, logits) {
			t.Errorf("%s: logits differ when hidden states are kept", info.Name)
		}
		for i, v := range g.Kept {
			b := graph.NewBuilder("reader", nil, info.Act, graph.F32)
			copied, err := b.Finish(b.SelectRows("selected", b.Input("rows", v.Axis)))
			if err != nil {
				t.Fatal(err)
			}
			reader, _ := run(copied)
			for row := range batch.Tokens {
				if err := reader.CopyRows(reader.Input(0), len(batch.Tokens)-1-row, target.Kept(i), row, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := reader.Run(batch); err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(batch.Tokens)*reader.Vocab())
			if err := reader.Logits(got, 0, len(batch.Tokens)); err != nil {
				t.Fatal(err)
			}
			_, want := run(cutBefore(t, g, v))
			width := v.Axis.Len()
			for row := range batch.Tokens {
				if other := len(batch.Tokens) - 1 - row; !slices.Equal(got[other*width:(other+1)*width], want[row*width:(row+1)*width]) {
					t.Errorf("%s: row %d of hidden output %d differs", info.Name, row, i)
				}
			}
		}
		if err := target.CopyRows(target.Kept(1), 6, target.Kept(0), 0, 3); err == nil {
			t.Errorf("%s: rows beyond the limits are copied", info.Name)
		}
	}
}

// ran compiles a graph and runs a batch; it gives the logits of all its tokens.
func ran(t *testing.T, g *graph.Graph, dev backend.Device, dir *modeldir.Dir, lim backend.Limits, batch *backend.Batch) (*compile.Program, []float32) {
	t.Helper()
	info := dev.Info()
	g, err := pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: dev}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile.Compile(g, dev, dir, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Run(batch); err != nil {
		t.Fatal(err)
	}
	rows := make([]float32, len(batch.Tokens)*p.Vocab())
	if err := p.Logits(rows, 0, len(batch.Tokens)); err != nil {
		t.Fatal(err)
	}
	return p, rows
}

// cutBefore is a graph that ends with the rows of a value.
func cutBefore(t *testing.T, g *graph.Graph, v *graph.Value) *graph.Graph {
	done := false
	cut, err := graph.Rewrite(&graph.Graph{Name: g.Name, Nodes: g.Nodes, Weights: g.Weights, Caches: g.Caches, Output: g.Output}, func(r *graph.Rewriter, n *graph.Node) bool {
		if done {
			return true
		}
		if done = n == v.From; done {
			made := r.Add(n.At, v.Name, n.Op, r.Of(n.In), n.Weights)
			r.Replace(n.Out, made)
			r.SetOutput(r.Add(n.At, "selected", graph.SelectRows{}, made, nil)[0])
		}
		return done
	})
	if err != nil {
		t.Fatal(err)
	}
	return cut
}

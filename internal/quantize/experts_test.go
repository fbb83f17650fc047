package quantize

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
)

// TestExperts: experts' matrices are rounded for the rows that reach them, whether they are tensors by themselves or one of all, with less error than to
// nearest; the files load and make nearly the model's logits. Routers stay as they are.
func TestExperts(t *testing.T) {
	folder := smallOf(t, 5)
	file := filepath.Join(t.TempDir(), "model.gguf")
	if _, err := convert.Convert(t.Context(), folder, file, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	want := firstLogits(t, open(t, folder))
	for _, c := range []struct {
		in, out string
		o       Options
		layers  int // tensors, or experts' parts of them, in each layer
	}{
		{folder, "gptq", Options{Method: MethodGPTQ, Grid: Grid{8, 32, true}}, 4 + 3*5},
		{folder, "gptq.gguf", Options{Method: MethodGPTQ, Grid: Grid{8, 32, true}, Rotate: true}, 4 + 3*5},
		{file, "gptq.gguf", Options{Method: MethodGPTQ, Grid: Grid{8, 32, true}}, 4 + 3*5},
		{folder, "awq", Options{Method: AWQ, Grid: Grid{8, 32, false}}, 4 + 3*5},
		{folder, "sparse", Options{Method: SparseGPT, Of4: 2}, 4 + 3*5},
		{folder, "smoothquant", Options{Method: SmoothQuant}, 4},
	} {
		dir := open(t, c.in)
		out := filepath.Join(t.TempDir(), c.out)
		r, err := Run(t.Context(), dir, someTokens(dir, 9, 40), out, c.o)
		if err != nil {
			t.Fatal(c.out, err)
		}
		if len(r.Layers) != c.layers*layers {
			t.Errorf("%s: %d matrices are rounded, want %d", c.out, len(r.Layers), c.layers*layers)
		}
		before, after := 0.0, 0.0
		for _, l := range r.Layers {
			if strings.Contains(l.Tensor, "expert") || strings.Contains(l.Tensor, "exps") {
				before, after = before+l.Before, after+l.After
			}
			if strings.HasSuffix(l.Tensor, "moe.gate.weight") {
				t.Errorf("%s: the router is rounded", c.out)
			}
		}
		if c.o.Method != SmoothQuant && !(after < before && after > 0) {
			t.Errorf("%s: experts' errors are %g in sum, and %g by the plain method", c.out, after, before)
		}
		tolerance := 0.03
		if c.o.Prunes() {
			tolerance = 2 // they need only be numbers
		}
		if off := relative(firstLogits(t, open(t, out)), want); !(off < tolerance) {
			t.Errorf("%s: logits are off by %g of the largest", c.out, off)
		}
	}
}

// relative is the largest difference of two lists of numbers, by the largest of want.
func relative(got, want []float32) float64 {
	size, off := 0.0, 0.0
	for i, v := range want {
		size, off = max(size, math.Abs(float64(v))), max(off, math.Abs(float64(got[i]-v)))
	}
	return off / size
}

// TestExpertsStay: experts with biases are left, with a note that says so.
func TestExpertsStay(t *testing.T) {
	dir := open(t, filepath.Join("..", "check", "testdata", "gptoss-yarn"))
	q := jobOf(t, dir, [][]int32{{1, 2}}, Options{Method: RTN, Grid: Grid{Bits: 4}})
	q.findMixtures()
	if len(q.notes) == 0 || !strings.Contains(q.notes[0], "the experts of layer 0 stay as they are: they have biases or bounds") {
		t.Errorf("notes: %q", q.notes)
	}
}

// TestChosenRows: of equal scores the first experts are chosen.
func TestChosenRows(t *testing.T) {
	got := chosenRows(graph.MoE{Experts: 4, TopK: 2}, rows{4, []float32{1, 3, 3, 3, 0, -1, -2, -0.5}})
	want := [][]int{{1}, {0}, {0}, {1}}
	for e := range want {
		if !slices.Equal(got[e], want[e]) {
			t.Errorf("expert %d has rows %d, want %d", e, got[e], want[e])
		}
	}
}

// TestImportanceOfExperts: the importances of an expert's matrices are those of the rows that it gets, by themselves or in one tensor, and a file is
// made by them.
func TestImportanceOfExperts(t *testing.T) {
	dir := open(t, smallOf(t, 5))
	seqs := someTokens(dir, 3, 20)
	m, err := Importance(t.Context(), dir, seqs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, cols := range map[string]int{"blk.1.ffn_gate_exps.weight": width, "blk.1.ffn_up_exps.weight": width, "blk.1.ffn_down_exps.weight": ffn} {
		e := m.Entries[name]
		rows := 0
		for _, n := range e.Counts {
			rows += int(n)
		}
		if tokens := 20 + 21 + 22; rows != 2*tokens || len(e.Squares) != 5*cols {
			t.Errorf("%s: %d rows in %d sums, want %d in %d", name, rows, len(e.Squares), 2*tokens, 5*cols)
		}
	}
	out := filepath.Join(t.TempDir(), "q4.gguf")
	if _, err := convert.Dir(t.Context(), dir, out, convert.Options{Type: q4(t), Importance: func(name string) []float32 {
		if e, ok := m.Entries[name]; ok {
			return e.Means()
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
}

func q4(t *testing.T) convert.Type {
	t.Helper()
	q, err := convert.ParseType("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

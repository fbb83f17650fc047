package graph

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// fusedTest is a norm, two layers that read it and the function on both, with activations in BF16.
func fusedTest(t *testing.T) (g *Graph, norm *Node, layers []*Node) {
	t.Helper()
	axis := Axis{Name: "a", Count: 8, Size: 1}
	b := NewBuilder("test", func(string) (Stored, bool) { return Stored{Format: quant.BF16}, true }, BF16, BF16)
	n := b.RMSNorm("n", b.Embed("x", b.Weight("embd", axis, axis), 0), b.Vector("norm", axis), 1e-5)
	gate, up := b.Linear("gate", n, b.Weight("gate", axis, axis), nil), b.Linear("up", n, b.Weight("up", axis, axis), nil)
	g, err := b.Finish(b.ActMul("y", gate, up, Silu))
	if err != nil {
		t.Fatal(err)
	}
	return g, n.From, []*Node{gate.From, up.From, g.Output.From}
}

// TestFusedWork: rows are read once, and what one part makes and another alone reads is not moved at all.
func TestFusedWork(t *testing.T) {
	g, _, layers := fusedTest(t)
	op, in, weights := NewFused(GatedLinear, layers, []*Value{g.Output})
	n := &Node{Op: op, In: in, Weights: weights, Out: []*Value{g.Output}}
	made, err := op.Infer(n)
	if err != nil || len(made) != 1 || made[0].Axis != g.Output.Axis || made[0].Type != BF16 {
		t.Fatalf("it makes %+v, %v", made, err)
	}
	const rows, row = 3, 2 * 8
	step := &Step{Seqs: []Seq{{New: rows}}}
	want := Work{FLOPs: rows * (2*2*8*8 + 8*5), WeightBytes: 2 * 8 * 8 * 2, ValueRead: rows * row, ValueWrite: rows * row}
	if got := op.Work(n, step); got != want {
		t.Errorf("it does %+v; want %+v", got, want)
	}
	if out, in, f, ok := n.Matrix(); out != 16 || in != 8 || f != quant.BF16 || !ok {
		t.Errorf("its matrix is %d × %d %s, %v", out, in, f, ok)
	}
}

// TestDeferredIsVerified: a norm that is not always written has no readers but those that compute it.
func TestDeferredIsVerified(t *testing.T) {
	g, norm, layers := fusedTest(t)
	deferred := func(readers, rows int) error {
		_, err := Rewrite(g, func(r *Rewriter, n *Node) bool {
			for i, l := range layers[:2] {
				if n != l || i >= readers {
					continue
				}
				op, _, weights := WithPrologue(n, norm.In[0], norm.Weights[0], Prologue{Rows: rows, Eps: 1e-5})
				r.Replace(n.Out, r.Add(n.At, "y", op, r.Of([]*Value{n.In[0], norm.In[0]}), weights))
				return true
			}
			if n == norm {
				r.Replace(n.Out, r.Add(n.At, "n", DeferredNorm{Eps: 1e-5, Rows: 4}, r.Of(n.In), n.Weights))
			}
			return n == norm
		})
		return err
	}
	if err := deferred(2, 4); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ readers, rows int }{{1, 4}, {0, 4}, {2, 3}} {
		if err := deferred(c.readers, c.rows); err == nil || !strings.Contains(err.Error(), "reads n, which is not written in steps of up to 4 rows") {
			t.Errorf("%d readers that compute the norm of %d rows: %v", c.readers, c.rows, err)
		}
	}
}

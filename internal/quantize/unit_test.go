package quantize

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/quant"
)

// TestZeros: of a matrix of zeros, and of one whose inputs are, no error is seen; it is 0.
func TestZeros(t *testing.T) {
	for _, m := range []Method{RTN, MethodGPTQ, AWQ, SmoothQuant, AutoRound, Magnitude, Wanda, SparseGPT} {
		dir := open(t, small(t))
		zero := func(name string, rows int) {
			dir.Replace(name, quant.FromFloats(make([]float32, rows*width), rows, width))
		}
		zero("model.layers.0.self_attn.v_proj.weight", width/2) // inputs of o_proj
		zero("model.layers.0.mlp.up_proj.weight", ffn)
		r, err := Run(t.Context(), dir, someTokens(dir, 5, 24), t.TempDir(), Options{Method: m, Grid: Grid{4, 32, true}})
		if err != nil {
			t.Errorf("%s: %v", m, err)
			continue
		}
		zeros := 0
		for _, l := range r.Layers {
			if l.After == 0 {
				zeros++
			}
		}
		if zeros != 4 {
			t.Errorf("%s: %d layers have no error; 4 have none: %+v", m, zeros, r.Layers)
		}
	}
}

// TestTwoInputs: a tensor that layers of two inputs read is refused.
func TestTwoInputs(t *testing.T) {
	dir := open(t, small(t))
	q, err := newJob(dir, ref.New(), someTokens(dir, 1, 8), Options{Method: RTN, Grid: Grid{4, 32, true}})
	if err != nil {
		t.Fatal(err)
	}
	q.blocks[2].inputs = append(q.blocks[2].inputs, q.blocks[1].inputs[0])
	if err := q.checkTensors(); err == nil || !strings.Contains(err.Error(), "is read by linear layers of two inputs") {
		t.Error(err)
	}
}

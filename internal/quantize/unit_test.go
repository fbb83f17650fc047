package quantize

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/internal/convert"
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

// TestPrunedGGUF: what is not zero stays in the number format that the file has it in.
func TestPrunedGGUF(t *testing.T) {
	f16, err := convert.ParseType("F16")
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(t.TempDir(), "in.gguf"), filepath.Join(t.TempDir(), "out.gguf")
	if _, err := convert.Convert(t.Context(), small(t), in, convert.Options{Type: f16}); err != nil {
		t.Fatal(err)
	}
	dir := open(t, in)
	if _, err := Run(t.Context(), dir, someTokens(dir, 5, 24), out, Options{Method: Magnitude, Of4: 2}); err != nil {
		t.Fatal(err)
	}
	const name = "blk.1.ffn_down.weight"
	before, _ := open(t, in).Tensor(name)
	after, _ := open(t, out).Tensor(name)
	if after.Format != quant.F16 {
		t.Fatalf("%s is in %s", name, after.Format)
	}
	zeros, want := 0, before.Floats()
	for i, v := range after.Floats() {
		if v == 0 {
			zeros++
		} else if v != want[i] {
			t.Fatalf("number %d is %g, and was %g", i, v, want[i])
		}
	}
	if zeros != len(want)/2 {
		t.Errorf("%d of %d numbers are zero", zeros, len(want))
	}
}

// TestRunning: what a model runs with in the place of a rounded matrix are the numbers of its codes, in whichever format.
func TestRunning(t *testing.T) {
	for bits := 2; bits <= 8; bits++ {
		for _, symmetric := range []bool{true, false} {
			g := Grid{bits, 64, symmetric}
			m := newMatrix(g, 8, 128)
			r := rand.New(rand.NewPCG(uint64(bits), 1))
			for i := range m.codes {
				m.codes[i] = uint8(r.IntN(g.top() + 1))
			}
			for i := range m.steps {
				m.steps[i] = step{f16(r.Float32()), uint8(g.middle())}
				if !symmetric {
					m.steps[i].zero = uint8(r.IntN(g.top() + 1))
				}
			}
			now := m.running()
			if got := now.Floats(); !slices.Equal(got, m.numbers()) {
				t.Errorf("%d bits, symmetric %v: other numbers in %s", bits, symmetric, now.Format)
			}
			if packed := now.Format != quant.F32; packed != (bits <= 4) {
				t.Errorf("%d bits, symmetric %v: in %s", bits, symmetric, now.Format)
			}
		}
	}
}

package convert

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/adapter"
)

const (
	demoModel   = "../builtin/demo.gguf"
	demoAdapter = "../../adapters/router"
)

// TestMerge merges a demonstration adapter into the built-in model: the matrices that it changes are W + scale·BA, queries and keys in the order of the
// GGUF file, and the others what they were. The adapter as GGUF gives the same file.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	f32, err := ParseType("F32")
	if err != nil {
		t.Fatal(err)
	}
	merge := func(path string, scale float32) string {
		out := filepath.Join(dir, filepath.Base(path)+".merged.gguf")
		if _, err := Merge(context.Background(), demoModel, []Merged{{path, scale}}, out, Options{Type: f32}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	merged := merge(demoAdapter, 0.5)
	base, err := weights.Open(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	after, err := weights.Open(merged)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	a, err := adapter.Open(demoAdapter)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for tensor, module := range map[string]string{
		"blk.3.ffn_up.weight": "mlp.up_proj", "blk.3.attn_q.weight": "self_attn.q_proj", "blk.3.ffn_down.weight": "mlp.down_proj", "blk.3.attn_k.weight": "",
	} {
		was, err := base.Tensor(tensor)
		if err != nil {
			t.Fatal(err)
		}
		is, err := after.Tensor(tensor)
		if err != nil {
			t.Fatal(err)
		}
		w, got := was.Floats(), is.Floats()
		if m := a.Modules["model.layers.3."+module]; m != nil {
			addLoRA(w, m, 0.5, module == "self_attn.q_proj")
		} else if module != "" {
			t.Fatalf("the adapter has nothing for %s", module)
		}
		for i := range w {
			if math.Abs(float64(w[i]-got[i])) > 1e-6 {
				t.Fatalf("%s: number %d is %v; %v is right", tensor, i, got[i], w[i])
			}
		}
	}
	file := filepath.Join(dir, "router.gguf")
	if _, err := Adapter(demoAdapter, demoModel, file); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(merged)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(merge(file, 0.5))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) {
		t.Error("merged from GGUF the model is another one")
	}
}

// TestMergeRefuses: a scale that makes every changed number NaN.
func TestMergeRefuses(t *testing.T) {
	for _, scale := range []float64{math.NaN(), math.Inf(1)} {
		out := filepath.Join(t.TempDir(), "merged.gguf")
		_, err := Merge(context.Background(), demoModel, []Merged{{demoAdapter, float32(scale)}}, out, Options{})
		if err == nil || !strings.Contains(err.Error(), "scale of adapter "+demoAdapter) {
			t.Errorf("scale %g: %v", scale, err)
		}
	}
}

// addLoRA adds a module's product, times a scale, to the matrix w of the built-in model, whose queries' rows are in pairs where the adapter's
// are in halves.
func addLoRA(w []float32, m *adapter.Module, scale float32, queries bool) {
	const head, dim = 64, 64 // of the built-in model
	left, right, rank, cols := m.B.Floats(), m.A.Floats(), m.B.Cols, m.A.Cols
	for r := range m.B.Rows {
		from := r // of the adapter's rows
		if queries {
			within := r % head
			from = r - within + within/2 + within%2*dim/2
		}
		for c := range cols {
			for j := range rank {
				w[r*cols+c] += scale * m.Scale * left[from*rank+j] * right[j*cols+c]
			}
		}
	}
}

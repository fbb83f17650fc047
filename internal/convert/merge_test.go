package convert

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
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
	const head, dim = 64, 64 // of the built-in model
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
			left, right, rank := m.B.Floats(), m.A.Floats(), m.B.Cols
			for r := range was.Rows {
				from := r // of the adapter's rows
				if module == "self_attn.q_proj" {
					within := r % head
					from = r - within + within/2 + within%2*dim/2
				}
				for c := range was.Cols {
					for j := range rank {
						w[r*was.Cols+c] += 0.5 * m.Scale * left[from*rank+j] * right[j*was.Cols+c]
					}
				}
			}
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

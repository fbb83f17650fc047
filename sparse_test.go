package ridge_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
)

// TestSparse: a model whose matrices are stored 2:4 sparse computes what the same numbers, with the zeros stored, do.
func TestSparse(t *testing.T) {
	ctx := context.Background()
	sparse := modelFile(t, "BF16_2_4")
	dense := filepath.Join(t.TempDir(), "dense.gguf")
	as, err := convert.ParseType("F32")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := convert.Convert(ctx, sparse, dense, convert.Options{Type: as}); err != nil {
		t.Fatal(err)
	}
	hidden := func(path, backend string) []float32 {
		m, err := ridge.Load(path, ridge.Options{Threads: 1, Backend: backend, Cache: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		e, err := m.Embed(ctx, "Once upon a time")
		if err != nil {
			t.Fatal(err)
		}
		return e.Vector
	}
	want := hidden(dense, "ref")
	for _, backend := range []string{"ref", "cpu"} {
		worst := 0.0
		for i, x := range hidden(sparse, backend) {
			worst = max(worst, math.Abs(float64(x-want[i])))
		}
		if worst > 1e-5 || math.IsNaN(worst) {
			t.Errorf("%s: hidden states differ by %g", backend, worst)
		}
	}
	original := hidden(modelFile(t, "F32"), "ref")
	if same := dot(original, want); same > 0.999 {
		t.Errorf("the sparse model is the original: their hidden states have a cosine of %g", same)
	}
}

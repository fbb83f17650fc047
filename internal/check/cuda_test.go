package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/bundle"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/plan"
)

// TestReferenceModelsOnGPU is TestReferenceModels on the first NVIDIA GPU.
func TestReferenceModelsOnGPU(t *testing.T) {
	if _, err := cuda.Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for _, dir := range supported {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			dev, err := cuda.New(cuda.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			res, err := Dir(filepath.Join(shared, dir), Options{Device: dev, Cache: graph.F32})
			if err != nil {
				t.Fatal(err)
			}
			if !res.OK {
				t.Errorf("%+v", *res)
			}
			t.Logf("worst error %.2g over %d rows, greedy %d of %d", res.WorstError, res.Rows, res.GreedySame, res.Greedy)
		})
	}
}

// TestReferenceModelsOnGPUInBF16 runs the models as a GPU runs them fast: activations and cache in BF16. How far that takes the
// logits of such small random models from upstream's (up to 6 %) is seen on the reference backend; the GPU may not be farther.
func TestReferenceModelsOnGPUInBF16(t *testing.T) {
	if _, err := cuda.Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for _, dir := range supported {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			dev, err := cuda.New(cuda.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			res, err := bf16(filepath.Join(shared, dir), dev)
			if err != nil {
				t.Fatal(err)
			}
			want, err := bf16(filepath.Join(shared, dir), ref.New())
			if err != nil {
				t.Fatal(err)
			}
			if res.WorstError > 2*want.WorstError {
				t.Errorf("worst error %.2g, on the reference backend %.2g: %+v", res.WorstError, want.WorstError, *res)
			}
			t.Logf("worst error %.2g (reference backend %.2g) over %d rows, greedy %d of %d (%d)",
				res.WorstError, want.WorstError, res.Rows, res.GreedySame, res.Greedy, want.GreedySame)
		})
	}
}

// bf16 compares the model in dir with its golden file, computing in BF16.
func bf16(dir string, dev backend.Device) (*Result, error) {
	g, err := readGolden(dir)
	if err != nil {
		return nil, err
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	gr, err := b.Model.Graph(model.Options{Act: graph.BF16, Cache: graph.BF16})
	if err != nil {
		return nil, err
	}
	if gr, err = pass.Run(gr, pass.All, pass.Options{}); err != nil {
		return nil, err
	}
	prog, err := plan.Compile(gr, dev, b, limits(g))
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	res, r := &Result{File: g.file}, &runner{prog: prog, past: make([]int, len(g.cases))}
	if err := res.prompts(r, g, 0); err != nil {
		return nil, err
	}
	return res, res.greedy(r, g)
}

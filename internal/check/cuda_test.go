package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda"
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

// TestReferenceModelsOnGPUInBF16 runs the models as a GPU runs them fast: activations and cache in BF16, passes applied. Their
// logits may be off by what BF16 rounds.
func TestReferenceModelsOnGPUInBF16(t *testing.T) {
	if _, err := cuda.Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the reference models in ../shared are not here")
	}
	for _, dir := range supported {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			res, err := bf16(filepath.Join(shared, dir))
			if err != nil {
				t.Fatal(err)
			}
			if res.WorstError > 0.05 {
				t.Errorf("%+v", *res)
			}
			t.Logf("worst error %.2g over %d rows, greedy %d of %d", res.WorstError, res.Rows, res.GreedySame, res.Greedy)
		})
	}
}

// bf16 compares the model in dir with its golden file on the first GPU.
func bf16(dir string) (*Result, error) {
	dev, err := cuda.New(cuda.Options{})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
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

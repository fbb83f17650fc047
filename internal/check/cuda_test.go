package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/graph"
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

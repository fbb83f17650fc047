package evaluate

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/quantize"
)

// TestInt4CacheOnGPU: a cache in four bits costs a GPU's model what it costs the CPU's, in prompts of several lengths.
func TestInt4CacheOnGPU(t *testing.T) {
	dev, err := device.Open(device.Options{Backend: "cuda"})
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	dev.Close()
	measure := func(backend string, cache graph.Type) float64 {
		dir, err := modeldir.Builtin()
		if err != nil {
			t.Fatal(err)
		}
		dev, err := device.Open(device.Options{Backend: backend, Threads: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		m, err := Open(dir, dev, Options{Context: 256, Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var windows []Window
		for i, length := range []int{40, 100, 200, 256} {
			seqs, err := quantize.Sequences(dir, quantize.Builtin, 2+i, length)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range seqs {
				windows = append(windows, Window{s, 1})
			}
		}
		r, err := Perplexity(m, nil, windows, nil, func(int, float64) {})
		if err != nil {
			t.Fatal(err)
		}
		return r.Perplexity
	}
	half, quarter, onCPU := measure("cuda", graph.F16), measure("cuda", graph.I4), measure("cpu", graph.I4)
	t.Logf("perplexity on a GPU %.4f, with a cache in four bits %.4f, and so on the CPU %.4f", half, quarter, onCPU)
	if math.Abs(quarter/onCPU-1) > 0.005 || quarter == half {
		t.Errorf("perplexity on a GPU %.4f, with a cache in four bits %.4f, and so on the CPU %.4f", half, quarter, onCPU)
	}
}

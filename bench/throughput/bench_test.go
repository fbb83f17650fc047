package throughput_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
)

// TestEarlyExit: with a threshold of 0 all tokens leave at the exit, with one of 1 hardly any, and without exits nothing is said of layers.
func TestEarlyExit(t *testing.T) {
	b, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	layers := func(e *earlyexit.Options) float64 {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		r, err := throughput.New(b.Model, b, []backend.Device{dev}, throughput.Options{Cache: graph.F16, Tokens: 32, Batch: 2, Chunk: 16, EarlyExit: e})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if _, err := r.Run(stopped, throughput.Test{Decode: 8, Batch: 2}, 1<<30); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
		row, err := r.Run(t.Context(), throughput.Test{Decode: 8, Depth: 8, Batch: 2}, 1)
		if err != nil || row.Median <= 0 {
			t.Fatal(row, err)
		}
		return row.Layers
	}
	if n := layers(nil); n != 0 {
		t.Errorf("without exits tokens went through %v layers", n)
	}
	if n := layers(&earlyexit.Options{Layers: []int{3}}); n != 3 {
		t.Errorf("with a threshold of 0 tokens went through %v layers, 3 wanted", n)
	}
	if n := layers(&earlyexit.Options{Layers: []int{3, 6}, Threshold: 1}); n < 7.5 {
		t.Errorf("with a threshold of 1 tokens went through %v layers, nearly 8 wanted", n)
	}
}

// TestOwnSequences: devices with sequences of their own share a test's, also where there are fewer sequences than devices, states and a depth.
func TestOwnSequences(t *testing.T) {
	for _, name := range []string{"gptoss-yarn", "jamba-bias"} {
		b, err := modeldir.Open("../../internal/check/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var devices []backend.Device
		for range 2 {
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			devices = append(devices, dev)
		}
		r, err := throughput.New(b.Model, b, devices, throughput.Options{Cache: graph.F16, Tokens: 48, Batch: 3, Chunk: 16, Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, test := range []throughput.Test{{Prompt: 16, Batch: 1}, {Decode: 4, Depth: 20, Batch: 1}, {Decode: 4, Depth: 20, Batch: 3}} {
			if row, err := r.Run(t.Context(), test, 1); err != nil || row.Median <= 0 {
				t.Errorf("%s, %s: %v, %v", name, test.Name(), row, err)
			}
		}
	}
}

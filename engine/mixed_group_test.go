package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestMixedGroup: stages of a pipeline on different backends give the tokens of one device, whichever is first.
func TestMixedGroup(t *testing.T) {
	one := start(t, roomy)
	var want [][]int32
	for i := range 6 {
		want = append(want, wait(t, submit(t, one, context.Background(), request(i, 5+9*i, 24))).tokens)
	}
	for _, first := range []bool{true, false} {
		b, err := modeldir.Open("../internal/check/testdata/llama-default")
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		c, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		devices := []backend.Device{ref.New(), c}
		if !first {
			devices = []backend.Device{c, ref.New()}
		}
		prog, err := compile.CompileGroup(g, pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 2, Data: 1}}, devices, b, roomy)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(prog, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if r := wait(t, submit(t, e, context.Background(), request(i, 5+9*i, 24))); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
				t.Errorf("ref first %v: request %d: %v (%v), want %v", first, i, r.tokens, r.final.Err, want[i])
			}
		}
		e.Close()
		for _, d := range devices {
			d.Close()
		}
		b.Close()
	}
}

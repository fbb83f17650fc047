package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// startAdapters is an engine on a small random model with slots for adapters, and random adapters of different ranks for it.
func startAdapters(t *testing.T, slots, n int) (*engine.Engine, []*engine.Adapter) {
	t.Helper()
	b, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, "lora", pass.Options{Layout: pass.OneDevice, Adapters: pass.Adapters{Slots: slots, Rank: 8}}); err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 2, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	lim := roomy
	lim.Adapters = slots
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	var all []*engine.Adapter
	for i := range n {
		all = append(all, randomAdapter(prog.Slots(), uint64(i+1), 1+i%8))
	}
	e, err := engine.New(prog, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e, all
}

// randomAdapter changes about half of the matrices, by much.
func randomAdapter(slots []*graph.Weight, id uint64, rank int) *engine.Adapter {
	r := rand.New(rand.NewPCG(id, 1))
	numbers := func(rows, cols int) quant.Tensor {
		x := quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols}
		for range rows * cols {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(r.NormFloat64())))
		}
		return x
	}
	of := map[*graph.Weight]*graph.LowRank{}
	for _, w := range slots {
		if r.IntN(2) == 0 || w.Slots.Table {
			continue
		}
		of[w] = &graph.LowRank{A: numbers(rank, w.In.Len()), B: numbers(w.Out.Len(), rank), Scale: 0.05}
	}
	n := engine.AdapterNumbers{Rank: rank, Bytes: 4, Of: func(w *graph.Weight) *graph.LowRank { return of[w] }}
	var mu sync.Mutex
	there := false
	return &engine.Adapter{
		ID: id, Name: fmt.Sprint("adapter ", id),
		Fetch: func(ready func()) {
			go func() {
				mu.Lock()
				there = true
				mu.Unlock()
				ready()
			}()
		},
		Loaded: func() (engine.AdapterNumbers, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return n, there, nil
		},
	}
}

// TestAdaptersMixed: what a request gets with its adapters does not depend on the requests beside it, nor on which adapters are evicted.
func TestAdaptersMixed(t *testing.T) {
	const slots, n, requests = 3, 7, 60
	e, all := startAdapters(t, slots, n)
	random := rand.New(rand.NewPCG(3, 4))
	next := func() engine.Request {
		r := engine.Request{Params: sample.Default(), MaxTokens: 1 + random.IntN(12)}
		r.Params.Temperature = 0
		for range 1 + random.IntN(40) {
			r.Prompt = append(r.Prompt, int32(random.IntN(5))) // beginnings are often the same
		}
		for range min(random.IntN(4), 2) {
			a := all[random.IntN(n)]
			if !slices.ContainsFunc(r.Adapters, func(u engine.AdapterUse) bool { return u.Adapter == a }) {
				r.Adapters = append(r.Adapters, engine.AdapterUse{Adapter: a, Scale: float32(1 + random.IntN(2))})
			}
		}
		return r
	}
	var asked []engine.Request
	var alone []result
	different := 0
	for i := range requests {
		r := next()
		asked = append(asked, r)
		alone = append(alone, wait(t, submit(t, e, context.Background(), r)))
		plain := r
		if plain.Adapters = nil; len(r.Adapters) > 0 && !slices.Equal(wait(t, submit(t, e, context.Background(), plain)).tokens, alone[i].tokens) {
			different++
		}
	}
	if different < requests/4 {
		t.Errorf("the adapters changed %d of %d answers", different, requests)
	}
	for round := range 5 {
		var running []<-chan result
		order := random.Perm(requests)
		for _, i := range order {
			running = append(running, submit(t, e, context.Background(), asked[i]))
		}
		for j, i := range order {
			got := wait(t, running[j])
			if got.final.Err != nil || !slices.Equal(got.tokens, alone[i].tokens) {
				t.Fatalf("round %d: request %d with %d adapters: %v, %v; alone it got %v", round, i, len(asked[i].Adapters), got.tokens, got.final.Err, alone[i].tokens)
			}
		}
	}
	if loads := e.Stats().AdapterLoads; loads < slots*2 {
		t.Errorf("%d adapters were put into slots, and none was evicted", loads)
	}
}

func TestAdapterRefusals(t *testing.T) {
	e, all := startAdapters(t, 1, 2)
	r := engine.Request{Prompt: []int32{1, 2}, Params: sample.Default(), MaxTokens: 2, Emit: func(sample.Choice) bool { return false }, Done: func(engine.Final) {}}
	r.Adapters = []engine.AdapterUse{{Adapter: all[0], Scale: 1}, {Adapter: all[1], Scale: 1}}
	var invalid *engine.InvalidError
	if err := e.Submit(context.Background(), r); !errors.As(err, &invalid) {
		t.Errorf("two adapters in one slot: %v", err)
	}
	broken := *all[0]
	broken.Loaded = func() (engine.AdapterNumbers, bool, error) {
		return engine.AdapterNumbers{}, false, errors.New("no such file")
	}
	r.Adapters = []engine.AdapterUse{{Adapter: &broken, Scale: 1}}
	if got := wait(t, submit(t, e, context.Background(), r)); !errors.As(got.final.Err, &invalid) {
		t.Errorf("an adapter that cannot be read: %v", got.final.Err)
	}
}

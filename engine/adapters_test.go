package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// adapterSetup is an engine with adapters.
type adapterSetup struct {
	open       func() (*modeldir.Dir, error)
	lim        backend.Limits
	options    engine.Options
	slots, n   int
	invocation []int32 // of every third adapter
}

func llama() (*modeldir.Dir, error) { return modeldir.Open("../internal/check/testdata/llama-default") }

// start is the engine, on a small random model, and random adapters of different ranks for it.
func (s adapterSetup) start(t *testing.T) (*engine.Engine, []*engine.Adapter) {
	t.Helper()
	b, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	info := dev.Info()
	if g, err = pass.Run(g, pass.All, pass.Options{Layout: pass.OneDevice, Q8: info.Q8, Kernels: compile.Kernels{Device: dev}, Adapters: pass.Adapters{Slots: s.slots, Rank: 8}}); err != nil {
		t.Fatal(err)
	}
	s.lim.Adapters = s.slots
	prog, err := compile.Compile(g, dev, b, s.lim)
	if err != nil {
		t.Fatal(err)
	}
	var all []*engine.Adapter
	for i := range s.n {
		var invocation []int32
		if i%3 == 2 {
			invocation = s.invocation
		}
		all = append(all, randomAdapter(prog.Slots(), uint64(i+1), 1+i%8, invocation))
	}
	e, err := engine.New(prog, s.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e, all
}

// randomAdapter changes about half of the matrices, by much.
func randomAdapter(slots []*graph.Weight, id uint64, rank int, invocation []int32) *engine.Adapter {
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
	n := engine.AdapterNumbers{Rank: rank, Bytes: 4, Invocation: invocation, Of: func(w *graph.Weight) *graph.LowRank { return of[w] }}
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

// dear is a Predictor by which every step takes a second, so that nothing is computed twice that can be swapped.
type dear struct{}

func (dear) Predict(sched.Shape) float64          { return 1 }
func (dear) Observe(*graph.Step, float64) float64 { return 1 }

// TestAdaptersMixed: what a request gets with its adapters does not depend on the requests beside it, nor on who is evicted for whom, in
// RIDGE_INTERLEAVINGS random interleavings of each setup (make adapters: 10,000 in all).
func TestAdaptersMixed(t *testing.T) {
	interleavings := 8
	if n, err := strconv.Atoi(os.Getenv("RIDGE_INTERLEAVINGS")); err == nil {
		interleavings = n
	}
	crowded := backend.Limits{Tokens: 24, Seqs: 6, Logits: 6, PageSize: 16, SeqPages: 8, Pages: 12, SwapPages: 12}
	for name, s := range map[string]adapterSetup{
		"roomy":     {open: llama, lim: roomy},
		"crowded":   {open: llama, lim: crowded, options: engine.Options{Predictor: dear{}}}, // prompts in chunks, preemption, swapping
		"drafts":    {open: llama, lim: backend.Limits{Tokens: 64, Seqs: 8, Logits: 32, PageSize: 16, SeqPages: 8, Pages: 64}, options: engine.Options{Speculation: engine.Speculation{Drafter: draft.NewSuffix(), Tokens: 3, Always: true}}},
		"quantised": {open: modeldir.Builtin, lim: roomy},
	} {
		t.Run(name, func(t *testing.T) {
			s.slots, s.n, s.invocation = 3, 7, []int32{4, 3}
			mixed(t, s, interleavings)
		})
	}
}

// mixed compares requests of one setup that run beside others with what they get alone, without adapters in the cache.
func mixed(t *testing.T, s adapterSetup, interleavings int) {
	const requests = 30
	b, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	vocab := b.Model.Config.Vocab
	b.Close()
	e, all := s.start(t)
	random := rand.New(rand.NewPCG(3, 4))
	next := func() engine.Request {
		r := engine.Request{Params: greedy(), MaxTokens: 1 + random.IntN(12)}
		for range 1 + random.IntN(60) {
			r.Prompt = append(r.Prompt, int32(3+random.IntN(3))) // beginnings are often the same
		}
		for range min(random.IntN(4), 2) {
			a := all[random.IntN(s.n)]
			if !slices.ContainsFunc(r.Adapters, func(u engine.AdapterUse) bool { return u.Adapter == a }) {
				r.Adapters = append(r.Adapters, engine.AdapterUse{Adapter: a, Scale: float32(1+random.IntN(2)) * 0.75})
			}
		}
		return r
	}
	constrained := func(r engine.Request, i int) engine.Request { // a matcher is the engine's from Submit on
		if i%5 == 0 {
			g, err := grammar.FromRegex("([a-m]-->[0-9][0-9])+")
			r.Ends, r.Grammar = []int32{2}, grammartest.Letters(t, vocab, g, err)
		}
		return r
	}
	var asked []engine.Request
	var alone []result
	different := 0
	fresh := s
	fresh.options = engine.Options{Index: "none"}
	one, same := fresh.start(t)
	for i := range requests {
		r := next()
		asked = append(asked, r)
		r.Adapters = slices.Clone(r.Adapters)
		for j := range r.Adapters {
			r.Adapters[j].Adapter = same[r.Adapters[j].ID-1]
		}
		alone = append(alone, wait(t, submit(t, one, context.Background(), constrained(r, i))))
		plain := r
		if plain.Adapters = nil; len(r.Adapters) > 0 && !slices.Equal(wait(t, submit(t, one, context.Background(), constrained(plain, i))).tokens, alone[i].tokens) {
			different++
		}
	}
	if different < requests/5 {
		t.Errorf("the adapters changed %d of %d answers", different, requests)
	}
	for n := range interleavings {
		order := random.Perm(requests)[:4+random.IntN(12)]
		running := make([]<-chan result, len(order))
		last := 0 // that was waited for
		check := func(j int) {
			got := wait(t, running[j])
			if i := order[j]; got.final.Err != nil || !slices.Equal(got.tokens, alone[i].tokens) {
				t.Fatalf("interleaving %d: request %d with %d adapters: %v, %v; alone it got %v", n, i, len(asked[i].Adapters), got.tokens, got.final.Err, alone[i].tokens)
			}
		}
		for j, i := range order {
			running[j] = submit(t, e, context.Background(), constrained(asked[i], i))
			if random.IntN(4) == 0 {
				check(last)
				last++
			}
		}
		for ; last < len(order); last++ {
			check(last)
		}
	}
	if loads := e.Stats().AdapterLoads; loads < int64(s.slots*2) {
		t.Errorf("%d adapters were put into slots, and none was evicted", loads)
	}
}

// TestActivated: an activated adapter (aLoRA) goes on from pages that the base has computed before its invocation, and the base from those
// of the adapter; the answers are those without a cache.
func TestActivated(t *testing.T) {
	s := adapterSetup{open: llama, lim: roomy, slots: 2, n: 3, invocation: []int32{50, 51}}
	cached, adapters := s.start(t)
	s.options.Index = "none"
	fresh, others := s.start(t)
	ask := func(e *engine.Engine, of []*engine.Adapter, prompt []int32, which int) result {
		r := engine.Request{Prompt: prompt, MaxTokens: 6, Params: greedy()}
		if which >= 0 {
			r.Adapters = []engine.AdapterUse{{Adapter: of[which], Scale: 1}}
		}
		return wait(t, submit(t, e, context.Background(), r))
	}
	text := prompt(1, 70)
	activated := slices.Concat(text[:60], []int32{50, 51}, text[:20])
	const activates, ordinary = 2, 0
	for i, step := range []struct {
		prompt []int32
		which  int
		cached int
		what   string
	}{
		{text, -1, 0, "the base"},
		{activated, activates, 48, "the adapter after the base, up to the page of its invocation"},
		{activated, activates, 80, "the adapter again"},
		{activated, -1, 48, "the base after the adapter, not behind the invocation"},
		{activated, ordinary, 0, "another adapter, which acts from the start"},
		{slices.Concat(activated, []int32{50, 51}, text[:9]), activates, 80, "an invocation later: what lies between is the base's"},
		{text, activates, 64, "the adapter without its invocation is the base"},
	} {
		got, want := ask(cached, adapters, step.prompt, step.which), ask(fresh, others, step.prompt, step.which)
		if got.final.Cached != step.cached || !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("%d, %s: %d tokens cached, want %d; %v, without a cache %v", i, step.what, got.final.Cached, step.cached, got.tokens, want.tokens)
		}
	}
}

// TestAdapterAging: a request with two adapters that are in no slot gets both, though requests with one adapter each never cease and would take every slot that
// becomes free.
func TestAdapterAging(t *testing.T) {
	s := adapterSetup{open: llama, lim: roomy, slots: 2, n: 6, options: engine.Options{AgingBound: 20 * time.Millisecond}}
	e, all := s.start(t)
	ctx, stop := context.WithCancel(context.Background())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for i := range 4 {
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := engine.Request{Prompt: prompt(i*100+n%100, 5), MaxTokens: 4, Params: greedy(), Adapters: []engine.AdapterUse{{Adapter: all[i], Scale: 1}}}
				<-submit(t, e, context.Background(), r)
			}
		})
	}
	for range 3 {
		r := engine.Request{Prompt: prompt(7, 9), MaxTokens: 4, Params: greedy(), Adapters: []engine.AdapterUse{{Adapter: all[4], Scale: 1}, {Adapter: all[5], Scale: 1}}}
		select {
		case got := <-submit(t, e, context.Background(), r):
			if got.final.Err != nil || len(got.tokens) != 4 {
				t.Fatalf("%v, %v", got.tokens, got.final.Err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request with two adapters waits for ever behind those with one")
		}
	}
}

func TestAdapterRefusals(t *testing.T) {
	e, all := adapterSetup{open: llama, lim: roomy, slots: 1, n: 2}.start(t)
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

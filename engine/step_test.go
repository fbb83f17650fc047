package engine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// stepped is an engine whose goroutine does not run: the test makes its steps.
type stepped struct {
	*Engine
	*loop
	current *InFlight // launched and not collected
	last    *InFlight // the last that was collected
}

func newStepped(t testing.TB, prog compile.Runner, o Options) *stepped {
	t.Helper()
	e, err := newEngine(prog, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.loop.pool.close)
	return &stepped{Engine: e, loop: &e.loop}
}

// step is one step of the engine's loop.
func (s *stepped) step() error {
	if s.last = s.current; s.last == nil {
		s.last = s.buffers.other(nil, nil)
	}
	next, err := s.loop.step(s.current)
	s.current = next
	return err
}

// ahead is how many steps have been launched beside the one that the next step collects.
func (s *stepped) ahead() int {
	if s.current == nil {
		return 0
	}
	return 1
}

// still is an engine on a device on the processor.
func still(t testing.TB, open func() (*modeldir.Dir, error), lim backend.Limits, o Options) *stepped {
	t.Helper()
	return stillOn(t, open, lim, o, func(d backend.Device) backend.Device { return d })
}

// stillOn is still on what wrap makes of the device.
func stillOn(t testing.TB, open func() (*modeldir.Dir, error), lim backend.Limits, o Options, wrap func(backend.Device) backend.Device) *stepped {
	t.Helper()
	b, err := open()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: dev.Info().Q8}); err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, wrap(dev), b, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close(); dev.Close(); b.Close() })
	return newStepped(t, prog, o)
}

func mustStep(t testing.TB, e *stepped) {
	t.Helper()
	if err := e.step(); err != nil {
		t.Fatal(err)
	}
	var seqs []*kv.Seq
	for _, r := range e.queue.byID {
		seqs = append(seqs, &r.seq, &r.before)
	}
	if err := e.pages.Check(seqs...); err != nil {
		t.Fatal(err)
	}
}

func greedy(prompt []int32, n int) Request {
	p := sample.Default()
	p.Temperature = 0
	return Request{Prompt: prompt, MaxTokens: n, Params: p, Emit: func(sample.Choice) bool { return false }, Done: func(Final) {}}
}

// TestStepAllocatesNothing: a step in which no request comes or goes allocates nothing beside what the device's launches do.
func TestStepAllocatesNothing(t *testing.T) {
	lim := backend.Limits{Tokens: 128, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 16, Pages: 128}
	e := still(t, modeldir.Builtin, lim, Options{})
	for i := range 8 {
		if err := e.Submit(context.Background(), greedy([]int32{int32(10 + i), 20, 30}, 240)); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
	for range 20 {
		mustStep(t, e)
	}
	device := testing.AllocsPerRun(100, func() {
		if err := e.prog.Run(&e.last.batch); err != nil {
			t.Fatal(err)
		}
	})
	got := testing.AllocsPerRun(100, func() {
		e.admit()
		if err := e.step(); err != nil {
			t.Fatal(err)
		}
		e.publish()
	})
	if got != device || len(e.queue.byID) != 8 {
		t.Errorf("a step of %d requests allocates %v times, of them the device %v", len(e.queue.byID), got, device)
	}
}

// answer is what a request was given: its tokens, and the logits that each was chosen from.
type answer struct {
	tokens []int32
	logits [][]float32
}

// rowOf is the logits of the request with this prompt.
func (s *stepped) rowOf(prompt []int32) []float32 {
	for _, o := range s.last.outputs {
		if &o.request.Prompt[0] == &prompt[0] {
			return o.logits
		}
	}
	return nil
}

// record makes a request write its answer down.
func (a *answer) record(s *stepped, r Request) Request {
	r.Emit = func(c sample.Choice) bool {
		a.tokens = append(a.tokens, c.Token)
		a.logits = append(a.logits, slices.Clone(s.rowOf(r.Prompt)))
		return false
	}
	return r
}

// TestDeterministic: a request's tokens and logits are the same to the bit whatever shares its steps, however its prompt
// is cut into chunks, whether its beginning was cached, and whether it was preempted; with weights of every
// kind, since the device is asked for that.
func TestDeterministic(t *testing.T) {
	models := map[string]func() (*modeldir.Dir, error){
		"builtin": modeldir.Builtin,
		"f32":     func() (*modeldir.Dir, error) { return modeldir.Open("../internal/check/testdata/llama-default") },
	}
	types := []string{"Q4_K_M", "BF16", "Q4_0"}
	if testing.Short() {
		types = types[:1]
	}
	for _, name := range types {
		path := requantised(t, name)
		models[name] = func() (*modeldir.Dir, error) { return modeldir.Open(path) }
	}
	for name, open := range models {
		t.Run(name, func(t *testing.T) {
			const requests, output = 6, 12
			random := rand.New(rand.NewPCG(1, 2))
			prompts := make([][]int32, requests)
			for i := range prompts {
				prompts[i] = make([]int32, 1+random.IntN(90))
				for j := range prompts[i] {
					prompts[i][j] = int32(3 + random.IntN(90))
				}
				if i > 0 && random.IntN(2) == 0 { // a beginning in common
					copy(prompts[i], prompts[i-1])
				}
			}
			var want [requests]answer
			alone := still(t, open, backend.Limits{Tokens: 128, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 8, Pages: 8}, Options{Index: "none"})
			for i, p := range prompts {
				if err := alone.Submit(context.Background(), want[i].record(alone, greedy(p, output))); err != nil {
					t.Fatal(err)
				}
				for alone.admit(); len(alone.queue.byID) > 0; {
					mustStep(t, alone)
				}
			}
			for round := range 6 {
				o := Options{Index: []string{"radix", "hash", "none"}[round%3], StepTokens: 24 + random.IntN(100)}
				pages := 64
				if round%4 == 3 {
					pages = 12 // some are preempted
				}
				e := still(t, open, backend.Limits{Tokens: 128, Seqs: 6, Logits: 6, PageSize: 16, SeqPages: 8, Pages: pages}, o)
				var got [requests]answer
				for _, i := range random.Perm(requests) {
					if err := e.Submit(context.Background(), got[i].record(e, greedy(prompts[i], output))); err != nil {
						t.Fatal(err)
					}
					e.admit()
					for range random.IntN(4) {
						mustStep(t, e)
					}
				}
				for len(e.queue.byID) > 0 {
					mustStep(t, e)
				}
				for i := range got {
					got[i].compare(t, round, i, want[i])
				}
			}
		})
	}
}

// requantised is a file of the built-in model with weights of another type.
func requantised(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	to, err := convert.ParseType(name)
	if err == nil {
		_, err = convert.Convert(context.Background(), "../internal/builtin/demo.gguf", path, convert.Options{Type: to})
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// compare reports the first difference.
func (a *answer) compare(t *testing.T, round, request int, want answer) {
	t.Helper()
	for n := range want.tokens {
		if n >= len(a.tokens) || a.tokens[n] != want.tokens[n] {
			t.Errorf("round %d, request %d: tokens %v; alone they were %v", round, request, a.tokens, want.tokens)
			return
		}
		if !slices.Equal(a.logits[n], want.logits[n]) {
			t.Errorf("round %d, request %d: the logits of token %d differ from those it had alone", round, request, n)
			return
		}
	}
}

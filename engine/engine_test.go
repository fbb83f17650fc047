package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// start is an engine on a small random model.
func start(t *testing.T, lim backend.Limits) *engine.Engine {
	t.Helper()
	return startWith(t, lim, engine.Options{})
}

func startWith(t *testing.T, lim backend.Limits, o engine.Options) *engine.Engine {
	t.Helper()
	b, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(prog, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e
}

// roomy holds everything the tests ask for at once.
var roomy = backend.Limits{Tokens: 64, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 8, Pages: 64}

// result is a finished request.
type result struct {
	tokens []int32
	final  engine.Final
}

// submit runs a request in the background.
func submit(t *testing.T, e *engine.Engine, ctx context.Context, r engine.Request) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	var tokens []int32
	emit := r.Emit
	r.Emit = func(c sample.Choice) bool {
		tokens = append(tokens, c.Token)
		return emit != nil && emit(c)
	}
	r.Done = func(f engine.Final) { done <- result{tokens, f} }
	if err := e.Submit(ctx, r); err != nil {
		t.Fatal(err)
	}
	return done
}

func wait(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(2 * time.Minute):
		t.Fatal("the request did not end")
		return result{}
	}
}

// prompt is n tokens that differ from one seed to the next.
func prompt(seed, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(3 + (seed*31+i*i*7+i)%90)
	}
	return ids
}

func greedy() sample.Params {
	p := sample.Default()
	p.Temperature = 0
	return p
}

func request(seed, n, out int) engine.Request {
	return engine.Request{Prompt: prompt(seed, n), MaxTokens: out, Params: greedy()}
}

// TestSameAlone: what shares the steps with a request does not change its tokens, whether there are pages for all or
// so few that requests have to give theirs back and start over.
func TestSameAlone(t *testing.T) {
	alone := start(t, roomy)
	var want [][]int32
	for i := range 8 {
		r := wait(t, submit(t, alone, context.Background(), request(i, 5+9*i, 30)))
		if r.final.Err != nil || r.final.Reason != sample.ReasonLength || len(r.tokens) != 30 {
			t.Fatalf("request %d ended with %+v after %d tokens", i, r.final, len(r.tokens))
		}
		want = append(want, r.tokens)
	}
	tight := roomy
	tight.Pages, tight.SeqPages = 9, 8
	for name, lim := range map[string]backend.Limits{"roomy": roomy, "tight": tight} {
		t.Run(name, func(t *testing.T) {
			e := start(t, lim)
			var done []<-chan result
			for i := range 8 {
				done = append(done, submit(t, e, context.Background(), request(i, 5+9*i, 30)))
			}
			for i, d := range done {
				if r := wait(t, d); r.final.Err != nil || !slices.Equal(r.tokens, want[i]) {
					t.Errorf("request %d: %v (%v), alone it was %v", i, r.tokens, r.final.Err, want[i])
				}
			}
		})
	}
}

// TestPrefixIsFound: the second request with the same beginning takes it from the cache and answers the same.
func TestPrefixIsFound(t *testing.T) {
	e := start(t, roomy)
	first := wait(t, submit(t, e, context.Background(), request(1, 50, 10)))
	second := wait(t, submit(t, e, context.Background(), request(1, 50, 10)))
	if first.final.Cached != 0 || second.final.Cached < 32 {
		t.Errorf("cached %d and %d tokens of 50; 0 and at least 32 are right", first.final.Cached, second.final.Cached)
	}
	if !slices.Equal(first.tokens, second.tokens) {
		t.Errorf("%v from the cache, %v computed", second.tokens, first.tokens)
	}
	// A whole prompt that is cached to its last page's end leaves a token to compute, on a page of its own.
	whole := wait(t, submit(t, e, context.Background(), request(1, 48, 10)))
	fresh := wait(t, submit(t, start(t, roomy), context.Background(), request(1, 48, 10)))
	if !slices.Equal(whole.tokens, fresh.tokens) {
		t.Errorf("%v from the cache, %v computed", whole.tokens, fresh.tokens)
	}
}

func TestEnds(t *testing.T) {
	e := start(t, roomy)
	all := wait(t, submit(t, e, context.Background(), request(2, 10, 20))).tokens
	r := request(2, 10, 20)
	r.Ends = []int32{all[7]}
	cut := slices.Index(all, all[7])
	if got := wait(t, submit(t, e, context.Background(), r)); !slices.Equal(got.tokens, all[:cut]) || got.final.Reason != sample.ReasonStop {
		t.Errorf("%v and %+v; the answer should end before token %d", got.tokens, got.final, all[7])
	}
	r = request(2, 10, 20)
	n := 0
	r.Emit = func(sample.Choice) bool { n++; return n == 3 }
	if got := wait(t, submit(t, e, context.Background(), r)); len(got.tokens) != 3 || got.final.Reason != sample.ReasonStop {
		t.Errorf("%d tokens and %+v; the owner ended it after 3", len(got.tokens), got.final)
	}
	long := wait(t, submit(t, e, context.Background(), request(3, 100, 1000)))
	if total := 100 + len(long.tokens); total != roomy.SeqPages*roomy.PageSize || long.final.Reason != sample.ReasonLength {
		t.Errorf("ended at %d tokens with %+v; the context is %d", total, long.final, roomy.SeqPages*roomy.PageSize)
	}
}

func TestCancelled(t *testing.T) {
	e := start(t, roomy)
	ctx, cancel := context.WithCancel(context.Background())
	r := request(4, 10, 100)
	var once sync.Once
	r.Emit = func(sample.Choice) bool { once.Do(cancel); return false }
	got := wait(t, submit(t, e, ctx, r))
	if !errors.Is(got.final.Err, context.Canceled) || len(got.tokens) > 2 {
		t.Errorf("%d tokens and %v; it was cancelled at the first", len(got.tokens), got.final.Err)
	}
	if after := wait(t, submit(t, e, context.Background(), request(5, 10, 5))); after.final.Err != nil {
		t.Errorf("the next request failed: %v", after.final.Err)
	}
}

func TestRefused(t *testing.T) {
	e := start(t, roomy)
	bad := greedy()
	bad.TopP = 7
	for want, r := range map[string]engine.Request{
		"prompt is empty":                       {MaxTokens: 1, Params: greedy()},
		"max_tokens is -1":                      {Prompt: prompt(1, 3), MaxTokens: -1, Params: greedy()},
		"has 200 tokens and the context is 128": request(1, 200, 1),
		"token 1 of the prompt is 96":           {Prompt: []int32{4, 96}, MaxTokens: 1, Params: greedy()},
		"top_p":                                 {Prompt: prompt(1, 3), MaxTokens: 1, Params: bad},
	} {
		if err := e.Submit(context.Background(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; it should say %q", err, want)
		}
	}
}

func TestClose(t *testing.T) {
	e := start(t, roomy)
	done := submit(t, e, context.Background(), request(6, 10, 100))
	e.Close()
	if got := wait(t, done); !errors.Is(got.final.Err, engine.ErrClosed) {
		t.Errorf("ended with %+v", got.final)
	}
	if err := e.Submit(context.Background(), request(6, 10, 1)); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a closed engine said %v", err)
	}
}

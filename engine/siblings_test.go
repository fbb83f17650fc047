package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestSiblings: further answers to a prompt are those that would have come had they been asked for alone, and the prompt
// is computed once, be there room for all of them at once or not, pages for all or not.
func TestSiblings(t *testing.T) {
	const n, out = 5, 20
	prompt := make([]int32, 45)
	for i := range prompt {
		prompt[i] = int32(3 + i*i%90)
	}
	ask := func(i int, to *[]int32) Request {
		p := sample.Default()
		p.Temperature, p.Seed = 1.5, uint64(i)
		return Request{Prompt: prompt, Params: p, MaxTokens: out, Done: func(Final) {}, Emit: func(c sample.Choice) bool {
			*to = append(*to, c.Token)
			return false
		}}
	}
	run := func(e *stepped) {
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			mustStep(t, e)
		}
	}
	var want [n][]int32
	alone := still(t, modeldir.Builtin, backend.Limits{Tokens: 128, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 8, Pages: 8}, Options{Index: "none"})
	for i := range n {
		if err := alone.Submit(context.Background(), ask(i, &want[i])); err != nil {
			t.Fatal(err)
		}
		run(alone)
	}
	for name, lim := range map[string]backend.Limits{
		"room for all": {Tokens: 64, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 8, Pages: 64},
		"few at once":  {Tokens: 64, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 8, Pages: 64},
		"few pages":    {Tokens: 64, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 8, Pages: 9},
	} {
		t.Run(name, func(t *testing.T) {
			e := still(t, modeldir.Builtin, lim, Options{})
			var got [n][]int32
			var siblings []Request
			for i := 1; i < n; i++ {
				siblings = append(siblings, ask(i, &got[i]))
			}
			if err := e.Submit(context.Background(), ask(0, &got[0]), siblings...); err != nil {
				t.Fatal(err)
			}
			run(e)
			for i := range n {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("answer %d is %v; alone it was %v", i, got[i], want[i])
				}
			}
			if all := int64(len(prompt) + n*(out-1)); name == "room for all" && e.meter.stats.Computed != all {
				t.Errorf("%d tokens were computed; the prompt once and %d answers are %d", e.meter.stats.Computed, n, all)
			}
		})
	}
}

// TestSiblingsEndTogether: when a request is given up before its prompt is computed, so are its siblings.
func TestSiblingsEndTogether(t *testing.T) {
	e := still(t, modeldir.Builtin, backend.Limits{Tokens: 64, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 8, Pages: 64}, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	r := greedy([]int32{5, 6, 7}, 5)
	r.Done = func(f Final) { ended <- f.Err }
	if err := e.Submit(ctx, r, r); err != nil {
		t.Fatal(err)
	}
	e.admit()
	<-e.loop.inbox.wake // of Submit, before the next: there is room for one
	cancel()
	<-e.loop.inbox.wake // of the caller's leaving
	e.admit()
	if len(ended) != 2 || len(e.queue.byID) != 0 {
		t.Fatalf("%d of 2 were told that they are over, %d are not", len(ended), len(e.queue.byID))
	}
	if first, second := <-ended, <-ended; first != context.Canceled || second != context.Canceled {
		t.Errorf("they ended with %v and %v", first, second)
	}
}

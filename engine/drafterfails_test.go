package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
)

// forcedAnswer is an answer of which each token came from a row of its own, and that ends by its length.
func forcedAnswer(tokens ...int32) (all []StepOutput) {
	for _, id := range tokens {
		all = append(all, StepOutput{Tokens: []int32{id}})
	}
	all[len(all)-1].Reason = sample.ReasonLength
	return all
}

// failing is a drafter that fails.
type failing struct {
	informed
	panics bool
	closed int
}

func (d *failing) Propose([]draft.Sequence) error {
	if d.panics {
		panic("out of luck")
	}
	return errors.New("out of luck")
}

func (d *failing) Close() error {
	d.closed++
	return nil
}

// TestDrafterFails: a drafter that fails is switched off, and answers go on, one whose drafts are given too.
func TestDrafterFails(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var said []error
		d := &failing{informed: informed{ended: map[int64]bool{}}, panics: panics}
		e := onRef(t, true, backend.Limits{Tokens: 64, Seqs: 2, Logits: 8, PageSize: 4, SeqPages: 16, Pages: 32}, Options{
			Speculation: Speculation{Drafter: d, Tokens: 3, Always: true, Failed: func(err error) { said = append(said, err) }},
		})
		var got, forced collected
		given := greedy([]int32{8, 9}, 5)
		given.Forced, given.ForcedDrafts = forcedAnswer(3, 4, 5, 6, 7), map[int]draft.Draft{3: {Tokens: []int32{4}}}
		for _, r := range []Request{got.into(greedy([]int32{5, 6, 7}, 9)), forced.into(given)} {
			if err := e.Submit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
		}
		if !slices.Equal(forced.tokens, []int32{3, 4, 5, 6, 7}) || e.Stats().Drafts != 1 {
			t.Errorf("the given answer is %v with %d drafts", forced.tokens, e.Stats().Drafts)
		}
		if len(got.tokens) != 9 || len(said) != 1 || d.closed != 1 {
			t.Errorf("%d tokens of 9, drafter closed %d times, said: %v", len(got.tokens), d.closed, said)
		}
	}
}

// TestForcedTooLong: an answer that is given and that does not end where the request ends, as of a recording that was changed, is an error of that request.
func TestForcedTooLong(t *testing.T) {
	for _, answer := range [][]StepOutput{forcedAnswer(3, 4, 5), {{Tokens: []int32{3}}, {Tokens: []int32{4}}}, {{Tokens: []int32{3, 4, 5}}}} {
		e := onRef(t, true, backend.Limits{Tokens: 64, Seqs: 2, Logits: 8, PageSize: 4, SeqPages: 16, Pages: 32}, Options{})
		var got collected
		r := got.into(greedy([]int32{8, 9}, 2))
		r.Forced = answer
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		e.admit()
		for n := 0; len(e.queue.byID) > 0 && n < 10; n++ {
			mustStep(t, e)
		}
		if got.final == nil || got.final.Err == nil || !strings.Contains(got.final.Err.Error(), "at 2 tokens") {
			t.Errorf("%v ended with %+v", answer, got.final)
		}
	}
}

package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
)

// secondBest drafts trees in which each token of the answer comes after one that no grammar allows.
type secondBest struct {
	informed
	drafted int
}

func (d *secondBest) Propose(seqs []draft.Sequence) error {
	for i := range seqs {
		q := &seqs[i]
		q.Draft = draft.Draft{}
		prompt, answer := d.answers(q.ID)
		at := -1
		for _, c := range answer[min(len(q.Tokens)-prompt, len(answer)):] {
			if n := len(q.Draft.Tokens); n+2 <= q.Max {
				q.Draft.Tokens, q.Draft.Parents = append(q.Draft.Tokens, 3, c.Token), append(q.Draft.Parents, at, at)
				at = n + 1
			}
		}
		d.drafted += len(q.Draft.Tokens)
	}
	return nil
}

// TestTreesUnderGrammars: of a token tree the branches stay that the grammar allows, whatever comes before them in the draft, with a mask for each; be tokens sampled by the device or by the host.
func TestTreesUnderGrammars(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 2, Logits: 24, PageSize: 4, SeqPages: 16, Pages: 32}
	var answers [2][]sample.Choice
	ask := func(e *stepped, i int) []sample.Choice {
		var got []sample.Choice
		r := constrainedRequest(t, uint64(i), 24)
		r.Emit = func(c sample.Choice) bool { got = append(got, c); return false }
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			mustStep(t, e)
		}
		return got
	}
	for i := range answers {
		answers[i] = ask(onRef(t, true, lim, Options{}), i)
	}
	for _, samples := range []bool{true, false} {
		d := &secondBest{informed: informed{answers: func(id int64) (int, []sample.Choice) { return 3, answers[id] }}}
		d.ended = map[int64]bool{}
		e := onRef(t, samples, lim, Options{Speculation: Speculation{Tokens: 8, Always: true, Drafter: d, Failed: func(err error) { t.Error(err) }}})
		for i, want := range answers {
			if got := ask(e, i); !slices.EqualFunc(got, want, func(a, b sample.Choice) bool { return a.Token == b.Token }) {
				t.Errorf("request %d got %v, and without drafts %v", i, got, want)
			}
		}
		if s := e.meter.stats; s.AcceptedTokens < 12 || 2*s.DraftTokens > int64(d.drafted) {
			t.Errorf("%d of %d tokens were drafted and %d accepted: half of them no grammar allows, and the others are right", s.DraftTokens, d.drafted, s.AcceptedTokens)
		}
	}
}

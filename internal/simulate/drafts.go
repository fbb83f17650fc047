package simulate

import (
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
)

// given is the drafter of a replay, in which requests bring their drafts (engine.Request.ForcedDrafts): it has none of its own.
type given struct{ name string }

// Name implements draft.Drafter.
func (d given) Name() string { return d.name }

// Propose implements draft.Drafter.
func (given) Propose(seqs []draft.Sequence) error {
	for i := range seqs {
		seqs[i].Draft = draft.Draft{}
	}
	return nil
}

// Concurrent implements draft.Concurrent: whether the recorded drafter was asked beside a step is seen in what came of it.
func (given) Concurrent() bool { return true }

// Seconds implements draft.Drafter.
func (given) Seconds(int, int) float64 { return 0 }

// Forget implements draft.Drafter.
func (given) Forget(int64, []int32) {}

// Close implements draft.Drafter.
func (given) Close() error { return nil }

// givenHidden is one that goes on from hidden states, as the recorded did: whether steps are launched ahead depends on it.
type givenHidden struct{ given }

// Computed implements draft.FromHidden.
func (givenHidden) Computed([]draft.Computed) {}

// speculation is the settings of speculative decoding like the recorded ones. Each request brings its drafts; one that had none brings none.
func (r *Recording) speculation() engine.Speculation {
	s := r.Speculation
	if s == nil {
		return engine.Speculation{}
	}
	for _, q := range r.requests {
		if q.drafts == nil {
			q.drafts = map[int]draft.Draft{}
		}
	}
	o := engine.Speculation{Drafter: given{s.Method}, Tokens: s.Tokens, Always: s.Always}
	if s.Hidden {
		o.Drafter = givenHidden{given{s.Method}}
	}
	return o
}

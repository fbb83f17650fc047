package openai

import (
	"cmp"
	"encoding/json"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// beamFields are vLLM's fields of beam search.
type beamFields struct {
	UseBeamSearch bool          `json:"use_beam_search"`
	BeamWidth     *int          `json:"beam_width"`     // default: n, which is the width in vLLM's requests
	LengthPenalty *float64      `json:"length_penalty"` // default: 1
	EarlyStopping earlyStopping `json:"early_stopping"`
}

// earlyStopping is true, false or "never", as transformers has it. The latter two search until no beginning can come to a higher score.
type earlyStopping bool

// UnmarshalJSON implements json.Unmarshaler.
func (e *earlyStopping) UnmarshalJSON(b []byte) error {
	if *e = false; !api.Present(b) || string(b) == `"never"` {
		return nil
	}
	if json.Unmarshal(b, (*bool)(e)) != nil {
		return api.Invalid("early_stopping", "early_stopping should be true, false or \"never\"")
	}
	return nil
}

// beams is how n answers are searched for; nil: they are sampled.
func (q *beamFields) beams(n int, stream bool) (*ridge.BeamSearch, error) {
	if !q.UseBeamSearch {
		for name, set := range map[string]bool{"beam_width": q.BeamWidth != nil, "length_penalty": q.LengthPenalty != nil && *q.LengthPenalty != 1, "early_stopping": bool(q.EarlyStopping)} {
			if set {
				return nil, api.Invalid(name, "%s is for beam search; set use_beam_search to true, or leave it out", name)
			}
		}
		return nil, nil
	}
	if stream {
		return nil, api.Invalid("stream", "the answers of a beam search (use_beam_search) are known when it has ended; set stream to false")
	}
	b := &ridge.BeamSearch{Width: n, LengthPenalty: 1, Early: bool(q.EarlyStopping)}
	b.Width = *cmp.Or(q.BeamWidth, &n)
	b.LengthPenalty = *cmp.Or(q.LengthPenalty, &b.LengthPenalty)
	if b.Width < 1 || b.Width > ridge.MaxBeams || b.Width < n {
		return nil, api.Invalid("beam_width", "beam_width is %d and n is %d; it must be at least n, and 1 to %d", b.Width, n, ridge.MaxBeams)
	}
	return b, nil
}

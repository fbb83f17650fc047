package openai

import (
	"cmp"
	"slices"

	"github.com/ridge-llm/ridge/server/api"
)

// checkBest refuses contradicting values of n, best_of, echo and stream.
func (q *CompletionRequest) checkBest() error {
	switch made := q.made(); {
	case made < q.choices() || made > MaxChoices:
		return api.Invalid("best_of", "best_of is %d; it must be at least n, which is %d, and at most %d", made, q.choices(), MaxChoices)
	case made > q.choices() && q.UseBeamSearch:
		return api.Invalid("best_of", "best_of is %d and n is %d: a beam search (use_beam_search) has the best already; leave best_of out", made, q.choices())
	case made > q.choices() && q.Stream:
		return api.Invalid("best_of", "best_of is %d and n is %d; the best are known only when all are finished, so they cannot be streamed", made, q.choices())
	}
	return nil
}

// made is how many answers are made to each prompt; the best n are returned.
func (q *CompletionRequest) made() int {
	if q.BestOf == nil {
		return q.choices()
	}
	return *q.BestOf
}

// score is the mean log-probability of a choice's tokens.
func (c *textState) score() float64 { return c.logprob / float64(max(c.tokens, 1)) }

// best keeps the n likeliest of each prompt's answers, the likeliest first.
func (a *textAnswer) best() []textState {
	made, n := a.request.made(), a.request.choices()
	if made == n {
		return a.choices
	}
	var kept []textState
	for group := range slices.Chunk(a.choices, made) {
		slices.SortStableFunc(group, func(x, y textState) int { return cmp.Compare(y.score(), x.score()) })
		kept = append(kept, group[:n]...)
	}
	return kept
}

package speculate

import (
	"errors"

	"github.com/ridge-llm/ridge/engine"
)

// taken is the steps of a round in which all sequences decoded.
type taken []counted

// counted is such a step.
type counted struct {
	engine.Step
	from, to float64 // tokens of an answer that were there before it and after it, on average
}

// together is the steps, of a whole round, in which so many sequences all decoded.
func together(steps []engine.Step, sequences int) (t taken) {
	at := 0.0
	for _, s := range steps {
		to := at + float64(s.Logits-s.DraftTokens+s.AcceptedTokens)/float64(sequences)
		if s.Requests == sequences && s.Tokens == s.Requests+s.DraftTokens {
			t = append(t, counted{s, at, to})
		}
		at = to
	}
	return t
}

// settle adds a round to each mode. What counts is the steps with contexts that all modes have come through with all sequences: drafts that are accepted beside
// the last prompts bring answers forward before all decode, the first of them end sooner, and the longer contexts are, the longer steps take.
func settle(modes []*mode) error {
	from, to := 0.0, modes[0].taken[len(modes[0].taken)-1].to
	for _, m := range modes {
		from, to = max(from, m.taken[0].from), min(to, m.taken[len(m.taken)-1].to)
	}
	for _, m := range modes {
		x, ok := m.taken.between(from, to)
		if !ok {
			return errors.New("speculate: there are no contexts at which all sequences decoded without drafts and with drafts of every length; measure answers of more tokens")
		}
		m.rounds = append(m.rounds, x)
	}
	return nil
}

// between is what the steps come to that begin with answers of so many tokens.
func (t taken) between(from, to float64) (m measured, ok bool) {
	var tokens, accepted, actual, predicted, host float64
	for _, s := range t {
		if s.from < from || s.from >= to {
			continue
		}
		tokens += float64(s.Requests + s.AcceptedTokens)
		accepted += float64(s.AcceptedTokens)
		actual, predicted, host = actual+s.Actual.Seconds(), predicted+(s.Predicted+s.PredictedDrafting).Seconds(), host+s.Host.Seconds()
	}
	if actual == 0 {
		return m, false
	}
	m.rate, m.accepted, m.idle = tokens/actual, accepted/(tokens-accepted), host/actual
	if predicted > 0 {
		m.predicted = tokens / predicted
	}
	return m, true
}

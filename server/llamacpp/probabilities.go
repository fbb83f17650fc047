package llamacpp

import (
	"maps"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
)

// probabilities is llama.cpp's field that asks for so many of the likeliest tokens in the place of each of the answer's.
type probabilities struct {
	Probs int `json:"n_probs"`
}

// completionRequest is the body of POST /completion, infillRequest that of POST /infill.
type (
	completionRequest struct {
		openai.CompletionRequest
		probabilities
	}
	infillRequest struct {
		openai.InfillRequest
		probabilities
	}
)

// Refuses is what requests refuse elsewhere but for this field.
func (*completionRequest) Refuses() map[string]api.Refusal { return refusals() }

// Refuses is likewise.
func (*infillRequest) Refuses() map[string]api.Refusal { return refusals() }

func refusals() map[string]api.Refusal {
	all := maps.Clone((&openai.CompletionRequest{}).Refuses())
	delete(all, "n_probs")
	return all
}

// ask has a request ask for them.
func (q *probabilities) ask(r *openai.CompletionRequest) error {
	switch {
	case q.Probs < 0 || q.Probs > 20:
		return api.Invalid("n_probs", "n_probs is %d; 0 to 20 is possible", q.Probs)
	case q.Probs > 0 && r.Logprobs != nil && *r.Logprobs != q.Probs:
		return api.Invalid("n_probs", "n_probs is %d and logprobs is %d; they mean the same", q.Probs, *r.Logprobs)
	case q.Probs > 0:
		r.Logprobs = &q.Probs
	}
	return nil
}

// likelihood is a token of the answer as llama.cpp has it.
func (a *answer) likelihood(c *ridge.Sampled) any {
	one := func(id int32, logprob float32) map[string]any {
		bytes := []int{}
		for _, b := range a.service.Token(id) {
			bytes = append(bytes, int(b))
		}
		return map[string]any{"id": id, "token": openai.TokenText(a.service, id), "bytes": bytes, "logprob": max(logprob, -9999)}
	}
	top := []any{}
	for _, x := range c.Top[:min(len(c.Top), a.probs)] {
		top = append(top, one(x.Token, x.Logprob))
	}
	own := one(c.Token, c.Logprob)
	own["top_logprobs"] = top
	return own
}

// shown is the tokens that have not been shown.
func (a *answer) shown() []any {
	all := a.likely
	a.likely = nil
	if all == nil {
		all = []any{}
	}
	return all
}

package serving

import (
	"context"
	"iter"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/cascade"
)

// confidenceKey is under which a request's context has what is to be told of its answer.
type confidenceKey struct{}

// WithConfidence is a context whose request's answer c is told of: its tokens' log-probabilities and, with c.Samples, as many answers beside it.
func WithConfidence(ctx context.Context, c *cascade.Confidence) context.Context {
	return context.WithValue(ctx, confidenceKey{}, c)
}

func confidenceOf(ctx context.Context) *cascade.Confidence {
	c, _ := ctx.Value(confidenceKey{}).(*cascade.Confidence)
	return c
}

// consistent is the temperature of answers beside one that the client wants the likeliest of.
const consistent = 0.7

// beside is the jobs with those of answers to the first prompt that only confidence is measured by, at the end. Of a request with several prompts there are none.
func beside(all []Job, c *cascade.Confidence) []Job {
	if c == nil || c.Samples == 0 || len(all) == 0 {
		return all
	}
	for i := range all[1:] {
		if all[1+i].First {
			return all
		}
	}
	more := all[:len(all):len(all)]
	for i := range c.Samples {
		j := Job{Index: len(all) + i, Prompt: all[0].Prompt, Params: all[0].Params}
		j.Params.Sampling.Seed += uint64(len(all) + i)
		if j.Params.Sampling.Temperature == 0 {
			j.Params.Sampling.Temperature = consistent
		}
		j.Params.Sampling.Logprobs, j.Params.Sampling.TopLogprobs = false, 0
		more = append(more, j)
	}
	return more
}

// observed tells c of a piece of an answer; own is how many of the jobs are the request's. It reports whether the piece is one of those.
func observed(c *cascade.Confidence, j *Job, p ridge.Piece, own int) bool {
	if c == nil {
		return true
	}
	if p.Token != nil && j.Index < own {
		c.Token(float64(p.Token.Logprob))
	}
	switch {
	case c.Samples == 0:
	case j.Index == 0:
		c.Text(0, p.Text)
	case j.Index >= own:
		c.Text(1+j.Index-own, p.Text)
	}
	return j.Index < own
}

// begun submits jobs to one prompt; with logprobs each token comes with its log-probability, whether or not the client has asked for it.
func (s *Service) begun(ctx context.Context, prompt []int32, params []ridge.Params) ([]iter.Seq2[ridge.Piece, error], error) {
	if confidenceOf(ctx) != nil {
		for i := range params {
			params[i].Sampling.Logprobs = true
		}
	}
	return s.GenerateMany(ctx, prompt, params)
}

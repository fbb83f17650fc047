package vllm

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/tokenizer"
)

// comparison is the common fields of requests that score pairs of texts.
type comparison struct {
	Model    string `json:"model"`
	Truncate *int   `json:"truncate_prompt_tokens"` // most tokens of a pair; -1 and nothing: what the context holds
	Priority int    `json:"priority"`
}

// score is how well the second text of each pair answers the first, and what that took in tokens.
func (q *comparison) score(ctx context.Context, s *serving.Service, texts [][2]string) (scores []float64, tokens int, err error) {
	named := &openai.Sampling{Model: q.Model}
	if err := named.Check(s); err != nil {
		return nil, 0, err
	}
	limit := 0
	switch {
	case !s.Compares():
		return nil, 0, api.Invalid("model", "the model %q was not trained to compare texts; /v1/embeddings gives vectors to compare", s.Name)
	case len(texts) > openai.MaxInputs:
		return nil, 0, api.Invalid("", "there are %d pairs; %d at most are scored at once", len(texts), openai.MaxInputs)
	case q.Truncate != nil && *q.Truncate != -1 && *q.Truncate < 1:
		return nil, 0, api.Invalid("truncate_prompt_tokens", "truncate_prompt_tokens is %d; -1 (what the context holds) or 1 and more are possible", *q.Truncate)
	case q.Truncate != nil:
		limit = *q.Truncate
	}
	p := ridge.Greedy()
	if p.Priority = q.Priority; serving.InBackground(ctx) {
		p.Priority = serving.BackgroundPriority
	}
	if p.Adapters, err = named.Adapters(s); err != nil {
		return nil, 0, err
	}
	pairs, err := s.EncodePairs(ctx, texts, limit)
	if errors.Is(err, tokenizer.ErrNoPairs) {
		return nil, 0, api.Invalid("model", "the files of the model %q do not say how a pair of texts is encoded", s.Name)
	} else if err != nil {
		return nil, 0, err
	}
	for i := range pairs {
		tokens += len(pairs[i].IDs)
	}
	scores = make([]float64, len(texts))
	// Submitting a few at a time keeps one request from filling the queue.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * openai.MaxChoices)
	for i := range pairs {
		group.Go(func() error {
			return serving.Contained(func() (err error) {
				scores[i], err = s.Score(ctx, pairs[i], p)
				return err
			})
		})
	}
	if err = group.Wait(); err == nil {
		s.CountPrompt(tokens)
	}
	return scores, tokens, err
}

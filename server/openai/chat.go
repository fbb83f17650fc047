package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/chat/jinja"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// ChatRequest is the body of POST /v1/chat/completions.
type ChatRequest struct {
	Sampling
	ToolFields
	Messages            []ChatMessage `json:"messages"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	Logprobs            bool          `json:"logprobs"`
	TopLogprobs         int           `json:"top_logprobs"`
	promptScores
	TemplateArgs map[string]json.RawMessage `json:"chat_template_kwargs"`
	Truncation   string                     `json:"truncation"` // auto or disabled, the default
	templateFields

	guide structured
}

// CheckChat validates the fields and determines which tools may be called.
func (q *ChatRequest) CheckChat(s *serving.Service) error {
	if err := q.Check(s); err != nil {
		return err
	}
	if q.MaxCompletionTokens != nil {
		if *q.MaxCompletionTokens < 0 {
			return api.Invalid("max_completion_tokens", "max_completion_tokens is %d; it must be 1 or more, or 0 to have the prompt computed and nothing answered", *q.MaxCompletionTokens)
		}
		q.MaxTokens = q.MaxCompletionTokens
	}
	if len(q.Messages) == 0 {
		return api.Invalid("messages", "messages is missing or empty")
	}
	q.Messages = opened(s, q.Messages)
	if q.Truncation != "" && q.Truncation != truncateAuto && q.Truncation != "disabled" {
		return api.Invalid("truncation", "truncation is %q; auto and disabled are possible", q.Truncation)
	}
	var err error
	if q.guide, err = q.language(); err != nil {
		return err
	}
	if err := q.checkTemplate(); err != nil {
		return err
	}
	return q.ToolFields.read(s.Model)
}

// prompt renders the conversation.
func (q *ChatRequest) prompt(ctx context.Context, s *serving.Service) (p chat.Prompt, err error) {
	r := chat.Request{Tools: q.Tools, Documents: q.Documents, AddGenerationPrompt: q.opensAnswer(), Extra: q.templateArgs()}
	for i := range q.Messages {
		m, err := q.Messages[i].message(i)
		if err != nil {
			return p, err
		}
		r.Messages = append(r.Messages, m)
	}
	p, err = s.Prompt(ctx, r)
	var refused *jinja.Error
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case errors.As(err, &refused):
		return p, api.Invalid("messages", "the model's chat template refuses the conversation: %v", refused)
	case err == nil && q.ContinueFinal:
		return q.openEnd(p, r.Messages)
	}
	return p, err
}

// Job returns the jobs of the request, and how to parse their output.
func (q *ChatRequest) Job(ctx context.Context, s *serving.Service) (all []serving.Job, o chat.OutputOptions, err error) {
	p, err := q.params(ctx, s)
	if err != nil {
		return nil, o, err
	}
	p.Sampling.Logprobs, p.Sampling.TopLogprobs = q.Logprobs, q.TopLogprobs
	if err := p.Sampling.Validate(s.Vocab()); err != nil {
		return nil, o, api.InvalidSampling(err.Error())
	}
	if err := q.score(&p, q.Stream); err != nil {
		return nil, o, err
	}
	q.promptOnly(&p)
	prompt, ids, err := q.fitting(ctx, s)
	if err != nil {
		return nil, o, err
	}
	style := s.Style()
	// With the marks: a tag that a message spells out neither begins nor ends the reasoning of the answer.
	text, _ := prompt.Marked()
	if p.Constraint, err = q.constraint(ctx, s, text, q.guide); err != nil {
		return nil, o, err
	}
	if err = q.mayWait(p.Constraint); err != nil {
		return nil, o, err
	}
	o = chat.OutputOptions{Style: style, Tools: q.names(), IsText: textParameters(q.tools), InReasoning: style.StartsInReasoning(text)}
	p.Special = len(o.Tools) > 0 || style.ThinkOpen != "" || style.Tools == chat.Harmony
	return serving.Jobs([][]int32{ids}, q.choices(), p), o, nil
}

// chat is POST /v1/chat/completions.
func (s *API) chat(w http.ResponseWriter, r *http.Request) (any, error) {
	var q ChatRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.CheckChat(s.Service); err != nil {
		return nil, err
	}
	all, o, err := q.Job(r.Context(), s.Service)
	if err != nil {
		return nil, err
	}
	serving.Announce(w, all)
	a := NewChatAnswer(s.Service, &q, w.Header().Get("X-Request-Id"), o, all)
	if q.Stream {
		out := api.NewStream(w)
		if err := a.stream(r.Context(), out, all); err != nil {
			out.Fail(s.Responder, r, err)
		}
		return nil, nil
	}
	if err := s.Run(r.Context(), all, func(j *serving.Job, p ridge.Piece) error { a.Take(j, p); return nil }); err != nil {
		return nil, err
	}
	return a.whole(), nil
}

// Tokens are the prompt that the conversation becomes, as text and as token ids.
func (q *ChatRequest) Tokens(ctx context.Context, s *serving.Service) (text string, ids []int32, err error) {
	if err = q.CheckChat(s); err != nil {
		return "", nil, err
	}
	p, err := q.prompt(ctx, s)
	if err != nil {
		return "", nil, err
	}
	ids, err = s.EncodePrompt(ctx, p)
	return p.Text(), ids, err
}

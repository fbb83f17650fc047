package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/chat/jinja"
)

// chatRequest is the body of POST /v1/chat/completions.
type chatRequest struct {
	sampling
	offer
	Messages            []chatMessage              `json:"messages"`
	MaxCompletionTokens *int                       `json:"max_completion_tokens"`
	Logprobs            bool                       `json:"logprobs"`
	TopLogprobs         int                        `json:"top_logprobs"`
	TemplateArgs        map[string]json.RawMessage `json:"chat_template_kwargs"`
	templateFields

	guide guide
}

// checkChat refuses what can be seen to be wrong, and settles which tools may be called.
func (q *chatRequest) checkChat(s *Server) error {
	if err := q.check(s); err != nil {
		return err
	}
	if q.MaxCompletionTokens != nil {
		if *q.MaxCompletionTokens < 1 {
			return bad("max_completion_tokens", "max_completion_tokens is %d; it must be 1 or more", *q.MaxCompletionTokens)
		}
		q.MaxTokens = q.MaxCompletionTokens
	}
	if len(q.Messages) == 0 {
		return bad("messages", "messages is missing or empty; there must be one at least")
	}
	var err error
	if q.guide, err = q.language(); err != nil {
		return err
	}
	if err := q.checkTemplate(); err != nil {
		return err
	}
	return q.offer.read(s.model)
}

// prompt renders the conversation.
func (q *chatRequest) prompt(ctx context.Context, s *Server) (string, error) {
	r := chat.Request{Tools: q.Tools, Documents: q.Documents, AddGenerationPrompt: q.opensAnswer(), Extra: q.templateArgs()}
	for i := range q.Messages {
		m, err := q.Messages[i].message(i)
		if err != nil {
			return "", err
		}
		r.Messages = append(r.Messages, m)
	}
	text, err := s.model.Render(ctx, r)
	var refused *jinja.Error
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &refused):
		return "", bad("messages", "the model's chat template refuses the conversation: %v", refused)
	case err == nil && q.ContinueFinal:
		return q.openEnd(text, r.Messages)
	}
	return text, err
}

// job is what to make, and how to read what comes.
func (q *chatRequest) job(ctx context.Context, s *Server) (all []job, o chat.OutputOptions, err error) {
	p, err := q.params(s.model)
	if err != nil {
		return nil, o, err
	}
	p.Sampling.Logprobs, p.Sampling.TopLogprobs = q.Logprobs, q.TopLogprobs
	if err := p.Sampling.Validate(s.model.Vocab()); err != nil {
		return nil, o, about(err.Error())
	}
	text, err := q.prompt(ctx, s)
	if err != nil {
		return nil, o, err
	}
	style := s.model.Style()
	if p.Constraint, err = q.constraint(s.model, text, q.guide); err != nil {
		return nil, o, err
	}
	if err = q.mayWait(p.Constraint); err != nil {
		return nil, o, err
	}
	o = chat.OutputOptions{Style: style, Tools: q.names(), IsText: textParameters(q.tools), InReasoning: style.StartsInReasoning(text)}
	p.Special = len(o.Tools) > 0 || style.ThinkOpen != "" || style.Tools == chat.Harmony
	// The template has written the tokens around the conversation; adding them would double them.
	ids, err := s.model.Encode(text, false)
	return jobs([][]int32{ids}, q.choices(), p), o, err
}

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) (any, error) {
	var q chatRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.checkChat(s); err != nil {
		return nil, err
	}
	all, o, err := q.job(r.Context(), s)
	if err != nil {
		return nil, err
	}
	a := newChatAnswer(s, &q, w.Header().Get("X-Request-Id"), o, all)
	if q.Stream {
		out := newStream(w)
		if err := a.stream(r.Context(), out, all); err != nil {
			out.fail(s, r, err)
		}
		return nil, nil
	}
	if err := s.run(r.Context(), all, func(j *job, p ridge.Piece) error { a.take(j, p); return nil }); err != nil {
		return nil, err
	}
	return a.whole(), nil
}

// tokens are the prompt that the conversation becomes, as text and as token ids.
func (q *chatRequest) tokens(ctx context.Context, s *Server) (text string, ids []int32, err error) {
	if err = q.checkChat(s); err != nil {
		return "", nil, err
	}
	if text, err = q.prompt(ctx, s); err != nil {
		return "", nil, err
	}
	// The template has written the tokens around the conversation; adding them would double them.
	ids, err = s.model.Encode(text, false)
	return text, ids, err
}

// render is POST /v1/chat/completions/render: the prompt that a conversation becomes.
func (s *Server) render(w http.ResponseWriter, r *http.Request) (any, error) {
	var q chatRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	text, ids, err := q.tokens(r.Context(), s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"prompt": text, "token_ids": ids}, nil
}

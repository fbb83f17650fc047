package llamacpp

import (
	"net/http"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// completion is POST /completion: the continuation of a text, until it ends if n_predict does not say how long.
func (s *API) completion(w http.ResponseWriter, r *http.Request) (any, error) {
	var q completionRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.probabilities.ask(&q.CompletionRequest); err != nil {
		return nil, err
	}
	all, err := q.Job(r.Context(), s.Service)
	if err != nil {
		return nil, err
	}
	return s.complete(w, r, &q.CompletionRequest, q.Probs, all)
}

// infill is POST /infill: the text between two others, until it ends if n_predict does not say how long.
func (s *API) infill(w http.ResponseWriter, r *http.Request) (any, error) {
	var q infillRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.probabilities.ask(&q.CompletionRequest); err != nil {
		return nil, err
	}
	all, err := q.Job(r.Context(), s.Service)
	if err != nil {
		return nil, err
	}
	return s.complete(w, r, &q.CompletionRequest, q.Probs, all)
}

// complete answers with the continuation of a prompt, and with so many of the likeliest tokens in the place of each of its own.
func (s *API) complete(w http.ResponseWriter, r *http.Request, q *openai.CompletionRequest, probs int, all []serving.Job) (any, error) {
	switch {
	case len(all) != 1:
		return nil, api.Invalid("prompt", "prompt has several texts, or n is above 1; %s gives one answer, /v1/completions several", r.URL.Path)
	case q.MaxTokens == nil:
		all[0].Params.MaxTokens = 0 // until it ends
	}
	serving.Announce(w, all)
	a := &answer{service: s.Service, model: q.Answered(s.Service), probs: probs}
	if !q.Stream {
		err := s.Run(r.Context(), all, func(_ *serving.Job, p ridge.Piece) error { a.take(p); return nil })
		if err != nil {
			return nil, err
		}
		return a.last(), nil
	}
	out := api.NewStream(w)
	err := s.Run(r.Context(), all, func(_ *serving.Job, p ridge.Piece) error {
		a.take(p)
		if p.Finish != nil {
			return out.Send(a.last())
		}
		return out.Send(a.piece(p))
	})
	if err != nil {
		out.Fail(s.Responder, r, err)
	}
	return nil, nil
}

// answer is what has come of a continuation.
type answer struct {
	service *serving.Service
	model   string
	text    strings.Builder
	sent    int // bytes of it
	ids     []int32
	probs   int   // of the likeliest tokens, to be shown
	likely  []any // the answer's tokens with these
	finish  *ridge.Finish
}

func (a *answer) take(p ridge.Piece) {
	a.text.WriteString(p.Text)
	if p.Token != nil {
		a.ids = append(a.ids, p.Token.Token)
		if a.probs > 0 {
			a.likely = append(a.likely, a.likelihood(p.Token))
		}
	}
	a.finish = p.Finish
}

// rest is the text that has not been sent.
func (a *answer) rest() string {
	text := a.text.String()[a.sent:]
	a.sent += len(text)
	return text
}

// piece is an event of a stream.
func (a *answer) piece(p ridge.Piece) map[string]any {
	ids := []int32{}
	if p.Token != nil {
		ids = append(ids, p.Token.Token)
	}
	body := map[string]any{"content": a.rest(), "tokens": ids, "stop": false, "index": 0, "id_slot": 0, "tokens_predicted": len(a.ids)}
	if a.probs > 0 {
		body["completion_probabilities"] = a.shown()
	}
	return body
}

// last is the answer, or the event that ends its stream: with the text that has not been sent.
func (a *answer) last() map[string]any {
	f := a.finish
	kind := "eos"
	switch {
	case f.Reason == ridge.FinishLength:
		kind = "limit"
	case f.Stop != "":
		kind = "word"
	}
	streamed := a.sent > 0
	ids := a.ids
	if streamed || ids == nil {
		ids = []int32{}
	}
	body := map[string]any{
		"content": a.rest(), "tokens": ids, "stop": true, "index": 0, "id_slot": 0, "model": a.model, "truncated": false, "stop_type": kind, "stopping_word": f.Stop,
		"tokens_predicted": f.Output, "tokens_evaluated": f.Prompt, "tokens_cached": f.Cached, "has_new_line": strings.Contains(a.text.String(), "\n"),
		"timings": timings(f),
	}
	if a.probs > 0 {
		body["completion_probabilities"] = a.shown()
	}
	return body
}

// timings is what the prompt and the answer took, as llama.cpp tells it.
func timings(f *ridge.Finish) map[string]any {
	t := map[string]any{"cache_n": f.Cached}
	add := func(name string, n int, d time.Duration) {
		ms := float64(d) / float64(time.Millisecond)
		t[name+"_n"], t[name+"_ms"] = n, ms
		if n > 0 && ms > 0 {
			t[name+"_per_token_ms"], t[name+"_per_second"] = ms/float64(n), 1000*float64(n)/ms
		}
	}
	add("prompt", f.Prompt-f.Cached, f.Prefill)
	add("predicted", f.Output, f.Decode)
	return t
}

package vllm

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// rerankRequest is the body of POST /v1/rerank, in the words of Cohere, Jina and vLLM.
type rerankRequest struct {
	comparison
	Query     string           `json:"query"`
	Documents []rerankDocument `json:"documents"`
	Top       *int             `json:"top_n"`            // default: all
	Return    *bool            `json:"return_documents"` // default true
}

// Refuses lists the fields that are not supported.
func (q *rerankRequest) Refuses() map[string]api.Refusal {
	return map[string]api.Refusal{
		"max_tokens_per_doc": {Harmless: "", Why: "documents are cut to the context, or with truncate_prompt_tokens to less"},
		"max_chunks_per_doc": {Harmless: "", Why: "documents are cut to the context, not read in chunks"},
		"rank_fields":        {Harmless: "[]", Why: "documents are texts; join the fields"},
	}
}

// rerankDocument is a text, or an object with one.
type rerankDocument struct {
	Text string `json:"text"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *rerankDocument) UnmarshalJSON(b []byte) error {
	if string(b) != "null" && json.Unmarshal(b, &d.Text) == nil {
		return nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(b, &object) != nil || object.Text == nil {
		return api.Invalid("documents", `a document is %.100s; it should be a string or {"text": …}`, b)
	}
	d.Text = *object.Text
	return nil
}

// ranked is a document with how well it answers the query.
type ranked struct {
	Index    int             `json:"index"` // in the request
	Document *rerankDocument `json:"document,omitempty"`
	Score    float64         `json:"relevance_score"`
}

// rerank is POST /v1/rerank, /v2/rerank and /rerank: documents in the order of how well they answer a query.
func (s *API) rerank(w http.ResponseWriter, r *http.Request) (any, error) {
	var q rerankRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	return q.answer(r.Context(), s.Service, w.Header().Get("X-Request-Id"))
}

func (q *rerankRequest) answer(ctx context.Context, s *serving.Service, id string) (any, error) {
	switch {
	case q.Query == "":
		return nil, api.Invalid("query", "query is missing or empty")
	case len(q.Documents) == 0:
		return nil, api.Invalid("documents", "documents is missing or empty")
	case q.Top != nil && *q.Top < 1:
		return nil, api.Invalid("top_n", "top_n is %d; it must be 1 or more", *q.Top)
	}
	texts := make([][2]string, len(q.Documents))
	for i, d := range q.Documents {
		texts[i] = [2]string{q.Query, d.Text}
	}
	scores, tokens, err := q.score(ctx, s, texts)
	if err != nil {
		return nil, err
	}
	results := make([]ranked, len(scores))
	for i, score := range scores {
		results[i] = ranked{Index: i, Score: score}
		if q.Return == nil || *q.Return {
			results[i].Document = &q.Documents[i]
		}
	}
	slices.SortStableFunc(results, func(a, b ranked) int { return cmp.Compare(b.Score, a.Score) })
	if q.Top != nil {
		results = results[:min(*q.Top, len(results))]
	}
	return map[string]any{"id": "rerank-" + id, "model": s.Name, "results": results, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}}, nil
}

// scoreRequest is the body of POST /v1/score, vLLM's: one text against some, or as many against as many, in pairs.
type scoreRequest struct {
	comparison
	First  textList `json:"text_1"`
	Second textList `json:"text_2"`
}

// textList is a text, or some.
type textList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *textList) UnmarshalJSON(b []byte) error {
	var one string
	if string(b) != "null" && json.Unmarshal(b, &one) == nil {
		*l = textList{one}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(l)) != nil {
		return api.Invalid("", "text_1 and text_2 should be strings or arrays of strings")
	}
	return nil
}

// score is POST /v1/score and /score.
func (s *API) score(w http.ResponseWriter, r *http.Request) (any, error) {
	var q scoreRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	return q.answer(r.Context(), s.Service, w.Header().Get("X-Request-Id"))
}

func (q *scoreRequest) answer(ctx context.Context, s *serving.Service, id string) (any, error) {
	switch {
	case len(q.First) == 0:
		return nil, api.Invalid("text_1", "text_1 is missing or empty")
	case len(q.Second) == 0:
		return nil, api.Invalid("text_2", "text_2 is missing or empty")
	case len(q.First) != 1 && len(q.First) != len(q.Second):
		return nil, api.Invalid("text_1", "text_1 has %d texts and text_2 %d; one against any number, or equally many, are possible", len(q.First), len(q.Second))
	}
	texts := make([][2]string, len(q.Second))
	for i, second := range q.Second {
		texts[i] = [2]string{q.First[i%len(q.First)], second}
	}
	scores, tokens, err := q.comparison.score(ctx, s, texts)
	if err != nil {
		return nil, err
	}
	data := []any{}
	for i, score := range scores {
		data = append(data, map[string]any{"index": i, "object": "score", "score": score})
	}
	return map[string]any{"id": "score-" + id, "object": "list", "created": s.Created.Unix(), "model": s.Name, "data": data,
		"usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}}, nil
}

package server

import (
	"encoding/json"
	"net/http"

	"github.com/ridge-llm/ridge"
)

// completionRequest is the body of POST /v1/completions.
type completionRequest struct {
	sampling
	Prompt   promptList `json:"prompt"`
	Logprobs *int       `json:"logprobs"`
	Echo     bool       `json:"echo"`
	BestOf   *int       `json:"best_of"`
	// SkipSpecial leaves special tokens out of the text; default true.
	SkipSpecial *bool `json:"skip_special_tokens"`
}

// promptList is a text, some texts, token ids, or some lists of token ids.
type promptList struct {
	texts []string
	ids   [][]int32
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *promptList) UnmarshalJSON(b []byte) error {
	var text string
	var ids []int32
	switch {
	case json.Unmarshal(b, &text) == nil:
		l.texts = []string{text}
	case json.Unmarshal(b, &l.texts) == nil:
	case json.Unmarshal(b, &ids) == nil:
		l.texts, l.ids = nil, [][]int32{ids}
	case json.Unmarshal(b, &l.ids) == nil:
		l.texts = nil
	default:
		return bad("prompt", "prompt should be a string, token ids, or an array of either")
	}
	return nil
}

// text is prompt i as text; ids is what it became.
func (l *promptList) text(s *Server, i int, ids []int32) string {
	if i -= len(l.ids); i >= 0 {
		return l.texts[i]
	}
	return s.model.Decode(ids)
}

// tokens are all prompts as token ids.
func (l *promptList) tokens(m *ridge.Model) ([][]int32, error) {
	all := l.ids
	for _, text := range l.texts {
		ids, err := m.Encode(text, true)
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
	}
	if len(all) == 0 {
		return nil, bad("prompt", "prompt is missing or empty")
	}
	return all, nil
}

// job is what to make.
func (q *completionRequest) job(s *Server) ([]job, error) {
	if err := q.check(s); err != nil {
		return nil, err
	}
	if err := q.checkBest(); err != nil {
		return nil, err
	}
	p, err := q.params(s.model)
	if err != nil {
		return nil, err
	}
	if q.MaxTokens == nil {
		p.MaxTokens = 16 // OpenAI's default for completions
	}
	if q.Logprobs != nil {
		p.Sampling.Logprobs, p.Sampling.TopLogprobs = true, *q.Logprobs
		if err := p.Sampling.Validate(s.model.Vocab()); err != nil {
			return nil, bad("logprobs", "logprobs is %d; 0 to 20 is possible", *q.Logprobs)
		}
	}
	guide, err := q.language()
	if err != nil {
		return nil, err
	}
	if p.Constraint, err = guide.constraint(s.model); err != nil {
		return nil, err
	}
	if err := q.mayWait(p.Constraint); err != nil {
		return nil, err
	}
	p.Special = q.SkipSpecial != nil && !*q.SkipSpecial
	p.Sampling.Logprobs = p.Sampling.Logprobs || q.made() > q.choices()
	prompts, err := q.Prompt.tokens(s.model)
	if err != nil {
		return nil, err
	}
	if n := len(prompts) * q.made(); n > maxChoices {
		return nil, bad("prompt", "%d prompts with n %d are %d answers; %d at most are made at once", len(prompts), q.made(), n, maxChoices)
	}
	return jobs(prompts, q.made(), p), nil
}

// completion is POST /v1/completions.
func (s *Server) completion(w http.ResponseWriter, r *http.Request) (any, error) {
	var q completionRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	all, err := q.job(s)
	if err != nil {
		return nil, err
	}
	a := newTextAnswer(s, &q, w.Header().Get("X-Request-Id"), all)
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

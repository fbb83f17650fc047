package openai

import (
	"context"
	"encoding/json"
	"math"
	"net/http"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Sampling
	Prompt   PromptList `json:"prompt"`
	Embeds   embedsList `json:"prompt_embeds"` // prompts as vLLM has them, before those of Prompt
	Suffix   string     `json:"suffix"`        // what follows the answer, which fills the gap before it; "": nothing is known of that
	Logprobs *int       `json:"logprobs"`
	promptScores
	Echo   bool `json:"echo"`
	BestOf *int `json:"best_of"`
	// SkipSpecial leaves special tokens out of the text; default true.
	SkipSpecial *bool `json:"skip_special_tokens"`
}

// PromptList is a text, some texts, token ids, or some lists of token ids.
type PromptList struct {
	Texts []string
	ids   [][]int32
}

// UnmarshalJSON implements json.Unmarshaler. A prompt may be most of a body of megabytes, so it is not read as what it cannot be.
func (l *PromptList) UnmarshalJSON(b []byte) error {
	*l = PromptList{}
	bad := api.Invalid("prompt", "prompt should be a string, token ids, or an array of either")
	if texts, _, ok := api.Texts(b, math.MaxInt); ok {
		l.Texts = texts
		return nil
	}
	for x := range api.Elements(b) {
		if x[0] == '"' { // and others that are none
			return bad
		}
	}
	var ids []int32
	if json.Unmarshal(b, &ids) == nil {
		l.ids = [][]int32{ids}
	} else if json.Unmarshal(b, &l.ids) != nil {
		return bad
	}
	return nil
}

// count is how many prompts there are.
func (l *PromptList) count() int { return len(l.Texts) + len(l.ids) }

// text is prompt i as text; ids is what it became.
func (l *PromptList) text(s *serving.Service, i int, ids []int32) string {
	if i -= len(l.ids); i >= 0 {
		return l.Texts[i]
	}
	return s.Decode(ids)
}

// tokens are all prompts as token ids.
func (l *PromptList) tokens(ctx context.Context, s *serving.Service) ([][]int32, error) {
	if l.count() == 0 {
		return nil, api.Invalid("prompt", "prompt is missing or empty")
	}
	texts, err := s.EncodeInputs(ctx, l.Texts)
	if err != nil {
		return nil, err
	}
	return append(l.ids, texts...), nil
}

// Job returns the jobs of the request.
func (q *CompletionRequest) Job(ctx context.Context, s *serving.Service) ([]serving.Job, error) {
	gaps, err := q.gaps()
	if err != nil {
		return nil, err
	}
	return q.jobs(ctx, s, "suffix", gaps)
}

// jobs are those of the prompts, or, where there are gaps, of these, which the field says.
func (q *CompletionRequest) jobs(ctx context.Context, s *serving.Service, field string, gaps []ridge.Infill) ([]serving.Job, error) {
	if err := q.Check(s); err != nil {
		return nil, err
	}
	if err := q.checkBest(); err != nil {
		return nil, err
	}
	p, err := q.params(ctx, s)
	if err != nil {
		return nil, err
	}
	if q.MaxTokens == nil {
		p.MaxTokens = 16 // OpenAI's default for completions
	}
	if q.Logprobs != nil {
		p.Sampling.Logprobs, p.Sampling.TopLogprobs = true, *q.Logprobs
		if err := p.Sampling.Validate(s.Vocab()); err != nil {
			return nil, api.Invalid("logprobs", "logprobs is %d; 0 to 20 is possible", *q.Logprobs)
		}
	}
	p.PromptLogprobs = q.Echo && q.Logprobs != nil
	if err := q.score(&p, q.Stream); err != nil {
		return nil, err
	}
	q.promptOnly(&p)
	guide, err := q.language()
	if err != nil {
		return nil, err
	}
	if p.Constraint, err = guide.constraint(ctx, s); err != nil {
		return nil, err
	}
	if err := q.mayWait(p.Constraint); err != nil {
		return nil, err
	}
	p.Special = q.SkipSpecial != nil && !*q.SkipSpecial
	p.Sampling.Logprobs = p.Sampling.Logprobs || q.made() > q.choices()
	texts := q.texts()
	if prompts := texts.count() + len(q.Embeds); prompts*q.made() > MaxChoices {
		return nil, api.Invalid("prompt", "%d prompts with n %d are %d answers; %d at most are made at once", prompts, q.made(), prompts*q.made(), MaxChoices)
	}
	var prompts [][]int32
	if len(gaps) > 0 {
		prompts, err = q.infill(ctx, s, &p, field, gaps)
	} else if texts.count() > 0 || len(q.Embeds) == 0 {
		prompts, err = texts.tokens(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	all, err := q.embedded(ctx, s, p)
	if err != nil {
		return nil, err
	}
	all = append(all, serving.Jobs(prompts, q.made(), p)...)
	for i := range all {
		all[i].Index = i
	}
	return all, nil
}

// completion is POST /v1/completions.
func (s *API) completion(w http.ResponseWriter, r *http.Request) (any, error) {
	var q CompletionRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	all, err := q.Job(r.Context(), s.Service)
	if err != nil {
		return nil, err
	}
	serving.Announce(w, all)
	a := newTextAnswer(s.Service, &q, w.Header().Get("X-Request-Id"), all)
	if q.Stream {
		out := api.NewStream(w)
		if err := a.stream(r.Context(), out, all); err != nil {
			out.Fail(s.Responder, r, err)
		}
		return nil, nil
	}
	if err := s.Run(r.Context(), all, func(j *serving.Job, p ridge.Piece) error { a.take(j, p); return nil }); err != nil {
		return nil, err
	}
	return a.whole(), nil
}

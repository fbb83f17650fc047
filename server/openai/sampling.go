package openai

import (
	"context"
	"math/rand/v2"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// Sampling is the common fields of completion and chat requests.
type Sampling struct {
	Model         string         `json:"model"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`

	N         *int     `json:"n"`
	MaxTokens *int     `json:"max_tokens"`
	Seed      *int64   `json:"seed"`
	Stop      stopList `json:"stop"`

	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	PresencePenalty   *float64 `json:"presence_penalty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	LogitBias         biases   `json:"logit_bias"`
	IgnoreEnd         bool     `json:"ignore_eos"`
	MinTokens         int      `json:"min_tokens"`
	StopIDs           []int32  `json:"stop_token_ids"`
	IncludeStop       bool     `json:"include_stop_str_in_output"`
	AllowedIDs        []int32  `json:"allowed_token_ids"`

	DiffusionFields
	beamFields
	StructuredFields
	idFields
	llamaFields

	LoRA []loraField `json:"lora"`

	Priority  int    `json:"priority"`
	CacheSalt string `json:"cache_salt"`

	Transfer *ridge.RemoteKV `json:"kv_transfer_params"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
	Continuous   bool `json:"continuous_usage_stats"` // vLLM's: usage in every event
}

// stopList is a string or some.
type stopList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *stopList) UnmarshalJSON(b []byte) error {
	if *l = nil; !api.Present(b) {
		return nil
	}
	texts, more, ok := api.Texts(b, ridge.MaxStops)
	switch {
	case !ok:
		return api.Invalid("stop", "stop should be a string or an array of strings")
	case more:
		return api.Invalid("stop", "stop has more than %d strings, the most that are looked for", ridge.MaxStops)
	}
	*l = texts
	return nil
}

// MaxChoices is the most answers one request may ask for, OpenAI's limit.
const MaxChoices = 128

// Check validates the fields that need no prompt.
func (q *Sampling) Check(s *serving.Service) error {
	if err := q.checkModel(s); err != nil {
		return err
	}
	if err := q.inherit(s); err != nil {
		return err
	}
	if n := q.choices(); n < 1 || n > MaxChoices {
		return api.Invalid("n", "n is %d; 1 to %d is possible", n, MaxChoices)
	}
	if q.MaxTokens != nil && *q.MaxTokens < 0 {
		return api.Invalid("max_tokens", "max_tokens is %d; it must be 1 or more, or 0 to have the prompt computed and nothing answered", *q.MaxTokens)
	}
	if err := q.llamaFields.apply(q); err != nil {
		return err
	}
	if q.StreamOptions != nil && !q.Stream {
		return api.Invalid("stream_options", "stream_options needs stream set to true")
	}
	return nil
}

func (q *Sampling) choices() int {
	if q.N == nil {
		return 1
	}
	return *q.N
}

// params is the model's recommended sampling with what the request sets.
func (q *Sampling) params(ctx context.Context, service *serving.Service) (ridge.Params, error) {
	m := service.Model
	p := m.Defaults()
	var err error
	if p.Adapters, err = q.Adapters(service); err != nil {
		return p, err
	}
	s := &p.Sampling
	api.Set(&s.Temperature, q.Temperature)
	api.Set(&s.TopP, q.TopP)
	if api.Set(&s.TopK, q.TopK); s.TopK == -1 {
		s.TopK = 0 // vLLM's and llama.cpp's way to say all
	}
	api.Set(&s.MinP, q.MinP)
	api.Set(&s.PresencePenalty, q.PresencePenalty)
	api.Set(&s.FrequencyPenalty, q.FrequencyPenalty)
	api.Set(&s.RepetitionPenalty, q.RepetitionPenalty)
	q.penalties(s)
	if s.TopP == 0 {
		s.TopK, s.TopP = 1, 1 // nothing but the likeliest token
	}
	if s.Seed = rand.Uint64(); q.Seed != nil {
		s.Seed = uint64(*q.Seed)
	}
	api.Set(&p.MaxTokens, q.MaxTokens)
	p.Stop, p.IgnoreEnd, p.Priority, p.Salt = q.Stop, q.IgnoreEnd, q.Priority, q.CacheSalt
	p.Remote = q.Transfer
	p.StopIDs, p.IncludeStop, p.MinTokens, s.Allowed = q.StopIDs, q.IncludeStop, q.MinTokens, q.AllowedIDs
	s.LogitBias, p.Diffusion = q.LogitBias, q.diffusion()
	if p.Beams, err = q.beams(q.choices(), q.Stream); err != nil {
		return p, err
	}
	if err := q.breakers(ctx, service, s); err != nil {
		return p, err
	}
	if err := s.Validate(m.Vocab()); err != nil {
		return p, api.InvalidSampling(err.Error())
	}
	return p, q.checkEnds(m.Vocab())
}

// promptOnly has the prompt computed and nothing answered, if max_tokens is 0.
func (q *Sampling) promptOnly(p *ridge.Params) {
	if q.MaxTokens != nil && *q.MaxTokens == 0 {
		p.NoAnswer = true
	}
}

// checkEnds validates min_tokens and stop_token_ids.
func (q *Sampling) checkEnds(vocab int) error {
	if q.MinTokens < 0 || q.MaxTokens != nil && q.MinTokens > *q.MaxTokens {
		return api.Invalid("min_tokens", "min_tokens is %d; it must be 0 or more, and not above the most tokens the answer may have", q.MinTokens)
	}
	for _, id := range q.StopIDs {
		if id < 0 || int(id) >= vocab {
			return api.Invalid("stop_token_ids", "stop_token_ids has %d; the vocabulary has tokens 0 to %d", id, vocab-1)
		}
	}
	return nil
}

// mayWait refuses min_tokens together with a constraint, which determines itself where the answer may end.
func (q *Sampling) mayWait(c *ridge.Constraint) error {
	if c != nil && q.MinTokens > 0 {
		return api.Invalid("min_tokens", "min_tokens is %d, but the answer is constrained to a format, which says itself where it may end", q.MinTokens)
	}
	return nil
}

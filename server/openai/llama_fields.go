package openai

import (
	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// llamaFields are what llama.cpp's server calls fields that others call otherwise, and those it alone has and Ridge does.
type llamaFields struct {
	Predict       *int     `json:"n_predict"`      // max_tokens; -1: until it ends
	RepeatPenalty *float64 `json:"repeat_penalty"` // repetition_penalty
	RepeatLast    *int     `json:"repeat_last_n"`  // tokens that penalties look at; 0: none, -1: all
	TypicalP      *float64 `json:"typical_p"`
	SamplerFields
}

// SamplerFields are llama.cpp's own samplers, which Ollama has as options.
type SamplerFields struct {
	TopNSigma        *float64    `json:"top_n_sigma"` // below 0: all tokens
	XTCProbability   *float64    `json:"xtc_probability"`
	XTCThreshold     *float64    `json:"xtc_threshold"`
	DynatempRange    *float64    `json:"dynatemp_range"`
	DynatempExponent *float64    `json:"dynatemp_exponent"`
	Mirostat         *int        `json:"mirostat"`
	MirostatTau      *float64    `json:"mirostat_tau"`
	MirostatEta      *float64    `json:"mirostat_eta"`
	Samplers         samplerList `json:"samplers"`
	DryMultiplier    *float64    `json:"dry_multiplier"`
	DryBase          *float64    `json:"dry_base"`
	DryAllowedLength *int        `json:"dry_allowed_length"`
	DryLast          *int        `json:"dry_penalty_last_n"`    // -1: all
	DryBreakers      breakerList `json:"dry_sequence_breakers"` // not given: llama.cpp's
}

// set sets what the fields say.
func (f *SamplerFields) set(s *ridge.Sampling) {
	api.Set(&s.TopNSigma, f.TopNSigma)
	s.TopNSigma = max(0, s.TopNSigma)
	api.Set(&s.XTCProbability, f.XTCProbability)
	api.Set(&s.XTCThreshold, f.XTCThreshold)
	api.Set(&s.DynatempRange, f.DynatempRange)
	api.Set(&s.DynatempExponent, f.DynatempExponent)
	api.Set(&s.Mirostat, f.Mirostat)
	api.Set(&s.MirostatTau, f.MirostatTau)
	api.Set(&s.MirostatEta, f.MirostatEta)
	s.Samplers = f.Samplers
	api.Set(&s.DryMultiplier, f.DryMultiplier)
	api.Set(&s.DryBase, f.DryBase)
	api.Set(&s.DryAllowedLength, f.DryAllowedLength)
	api.Set(&s.DryWindow, f.DryLast)
}

// repeatLast is how many tokens llama.cpp's repeat_penalty looks at where repeat_last_n does not say.
const repeatLast = 64

// apply puts fields where those of the same meaning are.
func (f *llamaFields) apply(q *Sampling) error {
	if f.Predict != nil && *f.Predict != -1 {
		if q.MaxTokens != nil && *q.MaxTokens != *f.Predict {
			return api.Invalid("n_predict", "n_predict is %d and max_tokens is %d; they mean the same", *f.Predict, *q.MaxTokens)
		}
		if *f.Predict < 0 {
			return api.Invalid("n_predict", "n_predict is %d; it must be 1 or more, 0 to have the prompt computed alone, or -1 for an answer that ends by itself", *f.Predict)
		}
		q.MaxTokens = f.Predict
	}
	if f.RepeatPenalty != nil {
		if q.RepetitionPenalty != nil && *q.RepetitionPenalty != *f.RepeatPenalty {
			return api.Invalid("repeat_penalty", "repeat_penalty is %v and repetition_penalty is %v; they mean the same", *f.RepeatPenalty, *q.RepetitionPenalty)
		}
		q.RepetitionPenalty = f.RepeatPenalty
	}
	if f.RepeatLast != nil && *f.RepeatLast < -1 {
		return api.Invalid("repeat_last_n", "repeat_last_n is %d; a number of tokens, 0 for no penalties and -1 for all tokens are possible", *f.RepeatLast)
	}
	return nil
}

// penalties sets what penalties look at.
func (f *llamaFields) penalties(s *ridge.Sampling) {
	api.Set(&s.TypicalP, f.TypicalP)
	f.SamplerFields.set(s)
	switch {
	case f.RepeatLast == nil && f.RepeatPenalty != nil:
		s.PenaltyWindow = repeatLast
	case f.RepeatLast == nil || *f.RepeatLast == -1:
	case *f.RepeatLast == 0:
		s.RepetitionPenalty, s.PresencePenalty, s.FrequencyPenalty = 1, 0, 0
	default:
		s.PenaltyWindow = *f.RepeatLast
	}
}

// SamplerRefusals are llama.cpp's and Ollama's samplers that Ridge does not have. What else they take counts only with these.
var SamplerRefusals = map[string]api.Refusal{
	"sampler_seq":            {Harmless: `""`, Why: "use samplers, which takes letters too"},
	"tfs_z":                  {Harmless: "1", Why: "use min_p"},
	"n_probs":                {Harmless: "0", Why: "use logprobs and top_logprobs"},
	"n_indent":               {Harmless: "0", Why: "use a grammar"},
	"t_max_predict_ms":       {Harmless: "0", Why: "use max_tokens, or the header X-Request-Timeout"},
	"post_sampling_probs":    {Harmless: "false", Why: "log-probabilities are those before sampling"},
	"grammar_lazy":           {Harmless: "false", Why: "tools with tool_choice auto are enforced from where a call begins"},
	"speculative.n_max":      {Harmless: "", Why: "drafts are chosen when the server starts (--speculate)"},
	"custom_logit_processor": {Harmless: `""`, Why: "no code is run for a request; use logit_bias"},
	"structural_tag":         {Harmless: `""`, Why: "use tools, which are enforced from where a call begins"},
}

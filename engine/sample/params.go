package sample

import (
	"fmt"
	"math"
	"strings"
)

// Params are one request's sampling settings. Start from Default: the zero Params is not valid.
type Params struct {
	Temperature float64 // ≥ 0; 0 (below 1e-5) is greedy
	TopK        int     // keep the k likeliest tokens; 0 keeps all
	TopP        float64 // in (0, 1]; 1 keeps all
	MinP        float64 // in [0, 1]; 0 keeps all
	TypicalP    float64 // in (0, 1]; 1 keeps all (Meister et al. 2022, arXiv:2202.00666)

	// llama.cpp's own samplers. With one of them on, the filters above come in the order Samplers, or llama.cpp's, with
	// the temperature at the end; see Chained.
	Samplers         []string // names of those that are applied, in their order, of SamplerNames; none is llama.cpp's order of all
	TopNSigma        float64  // ≥ 0: keep the tokens with a logit at most so many standard deviations below the highest; 0 keeps all (arXiv:2411.07641)
	XTCProbability   float64  // in [0, 1], that the likeliest tokens are left out; 0 is never
	XTCThreshold     float64  // in [0, 1]: of the tokens with this probability or more all but the least likely are left out then
	DynatempRange    float64  // ≥ 0: the temperature is between Temperature ± this, by how sure the model is; 0 is Temperature always
	DynatempExponent float64  // > 0, of that part of the most entropy there could be which says where between

	// DRY lowers what would go on with a repetition; see Breakers.
	DryMultiplier    float64   // ≥ 0; 0 is off
	DryBase          float64   // ≥ 1
	DryAllowedLength int       // ≥ 0: tokens that may repeat without a penalty that grows
	DryWindow        int       // it looks at the last so many tokens, prompt and output alike; -1 is all, 0 is off
	DryBreakers      *Breakers // sequences that end repetitions; nil: none

	// Mirostat, 1 or 2, chooses so that tokens surprise by MirostatTau bits on average (arXiv:2007.14966), and of the rest
	// only Temperature, the masks and LogitBias count, as in llama.cpp. 0 is off.
	Mirostat    int
	MirostatTau float64 // ≥ 0, bits
	MirostatEta float64 // ≥ 0: the part of a token's error by which the bound on the next is moved

	RepetitionPenalty float64 // in [0.01, 100]; 1 is none. Positive logits are divided by it, negative ones multiplied (arXiv:1909.05858)
	FrequencyPenalty  float64 // in [-2, 2]; subtracted once per occurrence in the output
	PresencePenalty   float64 // in [-2, 2]; subtracted once if the token occurs in the output
	// PenaltyWindow, if positive, makes all three penalties look at the last so many tokens, prompt and output alike,
	// as llama.cpp's repeat_last_n does. 0 is OpenAI's and vLLM's meaning: the whole request.
	PenaltyWindow int

	LogitBias map[int32]float64 // added to these tokens' logits; in [-100, 100]
	Allowed   []int32           // if not empty, only these tokens may be chosen
	Banned    []int32           // these tokens are never chosen
	MinTokens int               // in the first so many tokens of the output, none of Late is chosen
	Late      []int32           // those that would end the output

	Seed uint64 // same seed, same prompt, same model: same text

	Logprobs    bool // report the chosen token's log-probability
	TopLogprobs int  // in [0, 20]; report also this many of the likeliest tokens; needs Logprobs
}

// Default returns the settings that change nothing: temperature 1, every filter and penalty off.
func Default() Params {
	return Params{Temperature: 1, TopP: 1, TypicalP: 1, XTCThreshold: 0.1, DynatempExponent: 1, DryBase: 1.75, DryAllowedLength: 2, DryWindow: -1, MirostatTau: 5, MirostatEta: 0.1, RepetitionPenalty: 1}
}

// greedyBelow is the temperature under which a request is greedy, as in vLLM: dividing by less overflows float32.
const greedyBelow = 1e-5

// MaxTopLogprobs is OpenAI's limit on top_logprobs.
const MaxTopLogprobs = 20

// Validate returns a sentence naming the first setting that is out of its range. vocab is the length of the logit
// rows; token ids must lie in it. The names are those of the OpenAI and vLLM APIs.
func (p *Params) Validate(vocab int) error {
	ranges := []struct {
		name     string
		value    float64
		ok       bool
		expected string
	}{
		{"temperature", p.Temperature, p.Temperature >= 0, "0 or more"},
		{"top_p", p.TopP, p.TopP > 0 && p.TopP <= 1, "above 0 and at most 1"},
		{"min_p", p.MinP, p.MinP >= 0 && p.MinP <= 1, "between 0 and 1"},
		{"typical_p", p.TypicalP, p.TypicalP > 0 && p.TypicalP <= 1, "above 0 and at most 1"},
		{"top_n_sigma", p.TopNSigma, p.TopNSigma >= 0, "0 (all tokens) or more"},
		{"xtc_probability", p.XTCProbability, p.XTCProbability >= 0 && p.XTCProbability <= 1, "between 0 and 1"},
		{"xtc_threshold", p.XTCThreshold, p.XTCThreshold >= 0 && p.XTCThreshold <= 1, "between 0 and 1"},
		{"dynatemp_range", p.DynatempRange, p.DynatempRange >= 0, "0 or more"},
		{"dynatemp_exponent", p.DynatempExponent, p.DynatempExponent > 0, "above 0"},
		{"dry_multiplier", p.DryMultiplier, p.DryMultiplier >= 0, "0 (off) or more"},
		{"dry_base", p.DryBase, p.DryBase >= 1, "1 or more"},
		{"dry_allowed_length", float64(p.DryAllowedLength), p.DryAllowedLength >= 0, "0 or more"},
		{"dry_penalty_last_n", float64(p.DryWindow), p.DryWindow >= -1, "0 (off), -1 (all tokens) or a number of tokens"},
		{"mirostat", float64(p.Mirostat), p.Mirostat >= 0 && p.Mirostat <= 2, "0 (off), 1 or 2"},
		{"mirostat_tau", p.MirostatTau, p.MirostatTau >= 0, "0 or more"},
		{"mirostat_eta", p.MirostatEta, p.MirostatEta >= 0, "0 or more"},
		{"repetition_penalty", p.RepetitionPenalty, p.RepetitionPenalty >= 0.01 && p.RepetitionPenalty <= 100, "between 0.01 and 100"},
		{"frequency_penalty", p.FrequencyPenalty, math.Abs(p.FrequencyPenalty) <= 2, "between -2 and 2"},
		{"presence_penalty", p.PresencePenalty, math.Abs(p.PresencePenalty) <= 2, "between -2 and 2"},
		{"top_k", float64(p.TopK), p.TopK >= 0, "0 (all tokens) or more"},
		{"repeat_last_n", float64(p.PenaltyWindow), p.PenaltyWindow >= 0, "0 (the whole request) or more"},
		{"min_tokens", float64(p.MinTokens), p.MinTokens >= 0, "0 or more"},
		{"top_logprobs", float64(p.TopLogprobs), p.TopLogprobs >= 0 && p.TopLogprobs <= MaxTopLogprobs, "between 0 and 20"},
	}
	for _, r := range ranges {
		if !r.ok || math.IsInf(r.value, 0) { // NaN fails every comparison above
			return fmt.Errorf("sample: %s is %v; it must be %s", r.name, r.value, r.expected)
		}
	}
	for _, name := range p.Samplers {
		if chainSteps[name] == nil {
			return fmt.Errorf("sample: samplers names %q; those there are: %s", name, strings.Join(SamplerNames(), ", "))
		}
	}
	if p.TopLogprobs > 0 && !p.Logprobs {
		return fmt.Errorf("sample: top_logprobs is %d but logprobs is off; turn logprobs on", p.TopLogprobs)
	}
	return p.validateTokens(vocab)
}

func (p *Params) validateTokens(vocab int) error {
	for id, bias := range p.LogitBias {
		if !(math.Abs(bias) <= 100) {
			return fmt.Errorf("sample: logit_bias of token %d is %v; it must be between -100 and 100", id, bias)
		}
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("sample: logit_bias names token %d; the vocabulary has tokens 0 to %d", id, vocab-1)
		}
	}
	for _, list := range []struct {
		name string
		ids  []int32
	}{{"allowed_token_ids", p.Allowed}, {"banned_token_ids", p.Banned}, {"stop_token_ids", p.Late}} {
		for _, id := range list.ids {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("sample: %s names token %d; the vocabulary has tokens 0 to %d", list.name, id, vocab-1)
			}
		}
	}
	return nil
}

func (p *Params) greedy() bool { return p.Temperature < greedyBelow }

// Chained is the name of a setting that is one of llama.cpp's own samplers and on; "" if none is. Then Sample takes the
// filters in llama.cpp's order, and no device can do it: Describe leaves these settings out.
func (p *Params) Chained() string {
	switch {
	case p.Mirostat > 0:
		return "mirostat"
	case len(p.Samplers) > 0:
		return "samplers"
	case p.TopNSigma > 0:
		return "top_n_sigma"
	case p.XTCProbability > 0 && p.XTCThreshold <= xtcMost:
		return "xtc_probability"
	case p.dry():
		return "dry_multiplier"
	case p.DynatempRange > 0:
		return "dynatemp_range"
	}
	return ""
}

// xtcMost is the threshold above which XTC is off: two tokens cannot both be likelier than a half.
const xtcMost = 0.5

func (p *Params) penalised() bool {
	return p.RepetitionPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0
}

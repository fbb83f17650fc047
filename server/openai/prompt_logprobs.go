package openai

import (
	"strconv"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// promptScores is vLLM's field that asks for the log-probabilities of a prompt's tokens, and of so many of the likeliest in the place of each.
type promptScores struct {
	PromptLogprobs *int `json:"prompt_logprobs"`
}

// score has the answer's parameters ask for them.
func (q *promptScores) score(p *ridge.Params, stream bool) error {
	n := q.PromptLogprobs
	switch {
	case n == nil:
		return nil
	case *n < 0 || *n > 20:
		return api.Invalid("prompt_logprobs", "prompt_logprobs is %d; 0 to 20 is possible", *n)
	case stream:
		return api.Invalid("prompt_logprobs", "prompt_logprobs are not streamed; leave stream out")
	}
	p.PromptLogprobs, p.Sampling.Logprobs = true, true
	p.Sampling.TopLogprobs = max(p.Sampling.TopLogprobs, *n)
	return nil
}

// scored is a token in the place of a prompt's, as vLLM has it. The rank of a token that is not among the likeliest is not known.
type scored struct {
	Logprob float32 `json:"logprob"`
	Rank    *int    `json:"rank"`
	Text    string  `json:"decoded_token"`
}

// promptEntries are the tokens of a prompt, each with n of the likeliest in its place, by their ids: null of the first, which nothing precedes.
func promptEntries(s *serving.Service, prompt []ridge.Sampled, n int) []map[string]scored {
	all := make([]map[string]scored, len(prompt))
	for i, c := range prompt {
		if i == 0 {
			continue
		}
		all[i] = map[string]scored{strconv.Itoa(int(c.Token)): {Logprob: finite(c.Logprob), Text: TokenText(s, c.Token)}}
		for k, x := range c.Top {
			if rank := k + 1; k < n || x.Token == c.Token {
				all[i][strconv.Itoa(int(x.Token))] = scored{finite(x.Logprob), &rank, TokenText(s, x.Token)}
			}
		}
	}
	return all
}

// likeliest are the first n of a token's likeliest, where more were asked for in the place of prompts' tokens.
func likeliest(c *ridge.Sampled, n int) *ridge.Sampled {
	if len(c.Top) <= n {
		return c
	}
	fewer := *c
	fewer.Top = c.Top[:n]
	return &fewer
}

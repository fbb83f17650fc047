package openai

import (
	"context"
	"encoding/json"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// samplerList is the names of samplers in their order, or llama.cpp's letters for them. None is the order that there is otherwise.
type samplerList []string

// samplerLetters are the names by llama.cpp's letters.
var samplerLetters = map[rune]string{'e': "penalties", 'd': "dry", 's': "top_n_sigma", 'k': "top_k", 'y': "typ_p", 'p': "top_p", 'm': "min_p", 'x': "xtc", 't': "temperature"}

// UnmarshalJSON implements json.Unmarshaler.
func (l *samplerList) UnmarshalJSON(b []byte) error {
	*l = nil
	var letters string
	var names []string
	if json.Unmarshal(b, &names) != nil && json.Unmarshal(b, &letters) != nil {
		return api.Invalid("samplers", "samplers should be an array of names, or a string of letters")
	}
	for _, letter := range letters {
		if samplerLetters[letter] == "" {
			return api.Invalid("samplers", "samplers has the letter %q; e, d, s, k, y, p, m, x and t are possible", letter)
		}
		names = append(names, samplerLetters[letter])
	}
	for _, name := range names {
		if name == "typical_p" {
			name = "typ_p"
		}
		*l = append(*l, name)
	}
	return nil
}

// breakerList is the texts that end repetitions for DRY: an array of strings, or one as a string in JSON, as some clients send it.
type breakerList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *breakerList) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil && text != "" {
		b = []byte(text)
	}
	if err := json.Unmarshal(b, (*[]string)(l)); err != nil || *l != nil && len(*l) == 0 {
		return api.Invalid("dry_sequence_breakers", "dry_sequence_breakers should be an array of strings, not empty")
	}
	return nil
}

// breakers makes what ends repetitions for DRY, where it is on.
func (q *Sampling) breakers(ctx context.Context, m *serving.Service, s *ridge.Sampling) (err error) {
	if s.DryMultiplier == 0 {
		return nil
	}
	texts := []string(q.DryBreakers)
	if texts == nil {
		texts = ridge.DefaultBreakers()
	}
	s.DryBreakers, err = m.Breakers(ctx, texts)
	return err
}

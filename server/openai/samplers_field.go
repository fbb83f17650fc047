package openai

import (
	"encoding/json"

	"github.com/ridge-llm/ridge/server/api"
)

// samplerList is the names of samplers in their order, or llama.cpp's letters for them. None is the order that there is otherwise.
type samplerList []string

// samplerLetters are the names by llama.cpp's letters. dry does nothing, as its multiplier must be 0.
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
		switch name {
		case "dry":
			continue
		case "typical_p":
			name = "typ_p"
		}
		*l = append(*l, name)
	}
	if len(names) > 0 && len(*l) == 0 {
		return api.Invalid("samplers", "samplers has only dry, whose multiplier is 0 here; name others too")
	}
	return nil
}

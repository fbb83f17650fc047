package tokenizer

import (
	"bytes"
	"strings"
)

// Overlaps lists the sequences of tokens in which a text begins: a token that has all of it, or one that ends with its beginning, followed by the tokens of the rest, up to so
// many. Text that a model writes has the text in it when it has one of them.
func (t *Tokenizer) Overlaps(text string, tail int) (all [][]int32, err error) {
	if text == "" {
		return nil, nil
	}
	rest := map[int][]int32{} // the tokens of text[i:]
	for id := range int32(t.VocabSize()) {
		token := t.TokenBytes(id)
		if bytes.Contains(token, []byte(text)) {
			all = append(all, []int32{id})
			continue
		}
		for at := max(0, len(token)-len(text)+1); at < len(token); at++ {
			n := len(token) - at
			if !strings.HasPrefix(text, string(token[at:])) {
				continue
			}
			if rest[n] == nil {
				if rest[n], err = t.EncodeInside(text[n:], Options{}); err != nil {
					return nil, err
				}
			}
			all = append(all, append([]int32{id}, rest[n][:min(len(rest[n]), tail)]...))
		}
	}
	return all, nil
}

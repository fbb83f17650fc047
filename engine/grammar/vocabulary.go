package grammar

import (
	"bytes"
	"fmt"
	"slices"
)

// Vocabulary is the bytes of every token of a model, sorted so that all tokens can be tried against an automaton
// together. It does not change and may be shared.
type Vocabulary struct {
	size  int
	bytes [][]byte
	ends  []int32
	bands []band
	twins map[int32][]int32 // the other tokens with the same bytes, by the first of them
}

// band is the tokens of some lengths. The masks of a counter near its bound depend on its value only for tokens that
// could reach the bound, so short and long tokens are looked at apart.
type band struct {
	longest int // bytes
	trie    *trie
}

// bandLimits are the lengths in bytes up to which the bands but the last go.
var bandLimits = [...]int{4, 16}

const longestToken = 1 << 12 // bytes; longer tokens are never allowed

// NewVocabulary makes a vocabulary. tokens[i] is the bytes that token i adds to the text; they need not be whole code
// points. Special tokens, which add none, are nil or empty, and no grammar allows them. ends are the tokens that end an
// answer; they are allowed where the text may end and nowhere else. The slices are kept and must not be changed.
func NewVocabulary(tokens [][]byte, ends []int32) (*Vocabulary, error) {
	v := &Vocabulary{size: len(tokens), bytes: tokens, ends: ends, twins: map[int32][]int32{}}
	for _, e := range ends {
		if e < 0 || int(e) >= len(tokens) {
			return nil, fmt.Errorf("grammar: end token %d is not one of the vocabulary's %d tokens", e, len(tokens))
		}
	}
	ids := make([]int32, 0, len(tokens))
	for i, t := range tokens {
		if len(t) > 0 && len(t) <= longestToken && !slices.Contains(ends, int32(i)) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return bytes.Compare(tokens[a], tokens[b]) })
	unlike := ids[:0]
	for _, id := range ids {
		if n := len(unlike); n > 0 && bytes.Equal(tokens[unlike[n-1]], tokens[id]) {
			v.twins[unlike[n-1]] = append(v.twins[unlike[n-1]], id)
		} else {
			unlike = append(unlike, id)
		}
	}
	shortest := 1
	for _, longest := range append(bandLimits[:], longestToken) {
		var some []int32
		reach := 0
		for _, id := range unlike {
			if n := len(tokens[id]); n >= shortest && n <= longest {
				some, reach = append(some, id), max(reach, n)
			}
		}
		if len(some) > 0 {
			v.bands = append(v.bands, band{reach, newTrie(tokens, some)})
		}
		shortest = longest + 1
	}
	return v, nil
}

// Size is the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// MaskWords is the length of a mask: a bit per token.
func (v *Vocabulary) MaskWords() int { return (v.size + 31) / 32 }

func (v *Vocabulary) isEnd(token int32) bool { return slices.Contains(v.ends, token) }

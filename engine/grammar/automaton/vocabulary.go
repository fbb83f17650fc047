package automaton

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Vocabulary is the bytes of every token of a model, sorted so that all tokens can be tried against an automaton
// together. It does not change and may be shared.
type Vocabulary struct {
	size          int
	bytes         [][]byte // of a special token: its name between marks
	ends          []int32
	bands         []band
	duplicates    map[int32][]int32 // the other tokens with the same bytes, by the first of them
	hasDuplicates []uint32          // the first of them, a bit each
	special       map[string]int32  // by their bytes
	encode        func(text string) []int32
}

// Tokens is what a model's tokenizer says of its tokens.
type Tokens struct {
	// Bytes has for every token what it adds to the text; it need not be whole code points. Tokens that add nothing are
	// nil or empty, and no grammar allows them.
	Bytes [][]byte
	// Special has the names of the tokens that stand for themselves and not for their letters, such as <tool_call>. Only a
	// grammar that asks for one by its name (Special) allows it, whatever Bytes says.
	Special map[int32]string
	// Ends are the tokens that end an answer; they are allowed where the text may end and nowhere else.
	Ends []int32
	// Encode splits a text that follows others into tokens, as the model has learnt to see it; nil, or a result that does
	// not spell the text, stands for the longest token that fits, each time.
	Encode func(text string) []int32
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

// NewVocabulary makes a vocabulary, which keeps the parts of t: they must not be changed.
func NewVocabulary(t Tokens) (*Vocabulary, error) {
	v := &Vocabulary{size: len(t.Bytes), ends: t.Ends, duplicates: map[int32][]int32{}, special: map[string]int32{}, encode: t.Encode}
	for _, e := range t.Ends {
		if e < 0 || int(e) >= v.size {
			return nil, fmt.Errorf("grammar: end token %d is not one of the vocabulary's %d tokens", e, v.size)
		}
	}
	tokens := v.spell(t)
	v.hasDuplicates = make([]uint32, v.MaskWords())
	ids := make([]int32, 0, len(tokens))
	for i, b := range tokens {
		if len(b) > 0 {
			ids = append(ids, int32(i))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(bytes.Compare(tokens[a], tokens[b]), cmp.Compare(a, b)) })
	unlike := ids[:0]
	for _, id := range ids {
		if n := len(unlike); n > 0 && bytes.Equal(tokens[unlike[n-1]], tokens[id]) {
			v.duplicates[unlike[n-1]] = append(v.duplicates[unlike[n-1]], id)
			setBit(v.hasDuplicates, unlike[n-1])
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

// spell finds by which bytes each token is known; nil for those that no grammar allows.
func (v *Vocabulary) spell(t Tokens) [][]byte {
	v.bytes = make([][]byte, v.size)
	for i, b := range t.Bytes {
		id := int32(i)
		name, special := t.Special[id]
		switch {
		case slices.Contains(v.ends, id):
		case special:
			v.bytes[i] = slices.Concat([]byte{syntax.MarkerByte}, []byte(name), []byte{syntax.MarkerByte})
			v.special[string(v.bytes[i])] = id
		case len(b) <= longestToken && bytes.IndexByte(b, syntax.MarkerByte) < 0:
			v.bytes[i] = b
		}
	}
	return v.bytes
}

// MaskWords is the length of a mask: a bit per token.
func (v *Vocabulary) MaskWords() int { return (v.size + 31) / 32 }

func (v *Vocabulary) isEnd(token int32) bool { return slices.Contains(v.ends, token) }

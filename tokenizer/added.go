package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// An AddedToken is a token that is recognised in text before anything else looks at it.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between characters that are not of a word
	LStrip     bool   `json:"lstrip"`      // takes the white space on its left with it
	RStrip     bool   `json:"rstrip"`      // takes the white space on its right with it
	Normalized bool   `json:"normalized"`  // recognised in normalised text, by its own normalised form
	Special    bool   `json:"special"`     // steers the model; dropped when decoding with skipSpecial
}

// addedVocab is all added tokens: their ids, and the two sets that are searched for, before and after normalisation.
type addedVocab struct {
	tokens     map[int32]AddedToken
	ids        map[string]int32
	decoded    map[int32]string // the normalised form, where it differs: what decoders are given, as upstream has it
	special    map[string]bool  // by content
	raw        *tokenTrie
	normalized *tokenTrie
	strips     bool // some token takes white space along, any amount of it
}

// newAddedVocab gives every token an id as upstream does: the model's, if its vocabulary has the content; otherwise the
// next free one after the vocabulary. The ids written beside the contents are not used.
func newAddedVocab(tokens []AddedToken, v *vocab, norm normalizer) *addedVocab {
	a := &addedVocab{
		tokens: map[int32]AddedToken{}, ids: map[string]int32{},
		decoded: map[int32]string{}, special: map[string]bool{},
		raw: &tokenTrie{}, normalized: &tokenTrie{},
	}
	next := int32(v.count())
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		id, known := a.ids[t.Content]
		if !known {
			if id = v.id(t.Content); id < 0 {
				id = next
				next++
			}
		}
		t.ID = id
		a.ids[t.Content] = id
		if t.Special {
			a.special[t.Content] = true
		}
		a.tokens[id] = t
		if t.Normalized && norm != nil {
			if text := norm.normalize(t.Content); text != t.Content {
				a.decoded[id] = text
			}
		}
	}
	for id, t := range a.tokens {
		a.strips = a.strips || t.LStrip || t.RStrip
		switch text, changed := a.decoded[id]; {
		case !t.Normalized:
			a.raw.add(t.Content, id)
		case changed && text != "":
			a.normalized.add(text, id)
		case !changed:
			a.normalized.add(t.Content, id)
		}
	}
	return a
}

// text returns an added token as decoders are given it.
func (a *addedVocab) text(id int32) (string, bool) {
	if s, ok := a.decoded[id]; ok {
		return s, true
	}
	t, ok := a.tokens[id]
	return t.Content, ok
}

// split finds the tokens of trie in s: leftmost first, longest where several start. It calls found(id, start, end) for
// each, white space taken along included, and between(start, end) for the text in between, all left to right, until one returns false.
// Special tokens count as text unless special is set.
func (a *addedVocab) split(trie *tokenTrie, s string, special bool, between func(start, end int) bool, found func(id int32) bool) {
	done := 0
	for at := 0; ; {
		id, start, end := trie.find(s, at)
		if id < 0 {
			break
		}
		at = end
		t := a.tokens[id]
		if t.Special && !special {
			continue
		}
		if t.SingleWord && (endsInWord(s[:start]) || startsWithWord(s[end:])) {
			continue
		}
		if t.LStrip {
			start = max(done, start-trailingSpace(s[:start]))
		}
		if t.RStrip {
			end += leadingSpace(s[end:])
		}
		if start > done && !between(done, start) || !found(id) {
			return
		}
		done = end
	}
	if done < len(s) {
		between(done, len(s))
	}
}

// isWordRune is \w of Rust's regex crate: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control.
func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Pc, unicode.Join_Control)
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWordRune(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWordRune(r)
}

// leadingSpace and trailingSpace count the bytes of white space at either end of s.
func leadingSpace(s string) int {
	for i, r := range s {
		if !unicode.IsSpace(r) {
			return i
		}
	}
	return len(s)
}

func trailingSpace(s string) int {
	n := len(s)
	for n > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:n])
		if !unicode.IsSpace(r) {
			break
		}
		n -= size
	}
	return len(s) - n
}

package tokenizer

import (
	"errors"
	"unicode/utf8"
)

// wordPiece cuts a word into the longest token it starts with, then the longest that goes on from there, and so on
// (BERT). A word for which that fails, or of too many runes, is one unknown token.
type wordPiece struct {
	vocab    *vocab
	unk      int32  // or -1, when the vocabulary lacks it
	prefix   string // of tokens that continue a word: ##
	maxRunes int
	longest  int // bytes of the longest token, a bound on how far a match can reach
}

func newWordPiece(v *vocab, unk int32, prefix string, maxRunes int) *wordPiece {
	m := &wordPiece{vocab: v, unk: unk, prefix: prefix, maxRunes: maxRunes}
	v.each(func(key []byte, _ int32) { m.longest = max(m.longest, len(key)) })
	return m
}

func (m *wordPiece) appendIDs(dst []int32, word string, sc *scratch) ([]int32, error) {
	if utf8.RuneCountInString(word) > m.maxRunes {
		return m.appendUnknown(dst)
	}
	first := len(dst)
	for start := 0; start < len(word); {
		id, end := m.match(word, start, sc)
		if id < 0 {
			return m.appendUnknown(dst[:first])
		}
		dst = append(dst, id)
		start = end
	}
	return dst, nil
}

// match returns the longest token that word has at start, and its end, or -1.
func (m *wordPiece) match(word string, start int, sc *scratch) (id int32, end int) {
	sc.key = sc.key[:0]
	if start > 0 {
		sc.key = append(sc.key, m.prefix...)
	}
	base := len(sc.key) - start // word[i] is sc.key[base+i]
	end = min(len(word), m.longest-base)
	sc.key = append(sc.key, word[start:max(start, end)]...)
	for end > start && end < len(word) && !utf8.RuneStart(word[end]) {
		end--
	}
	for end > start {
		if id := m.vocab.lookupBytes(sc.key[:base+end]); id >= 0 {
			return id, end
		}
		_, n := utf8.DecodeLastRuneInString(word[:end])
		end -= n
	}
	return -1, start
}

func (m *wordPiece) appendUnknown(dst []int32) ([]int32, error) {
	if m.unk < 0 {
		return dst, errors.New("tokenizer: the text has a word without tokens, and the WordPiece vocabulary lacks the unk_token")
	}
	return append(dst, m.unk), nil
}

// wordLevel has a token for every word it knows.
type wordLevel struct {
	vocab *vocab
	unk   int32 // or -1, when the vocabulary lacks it
}

func (m *wordLevel) appendIDs(dst []int32, word string, _ *scratch) ([]int32, error) {
	if id := m.vocab.lookup(word); id >= 0 {
		return append(dst, id), nil
	}
	if m.unk < 0 {
		return dst, errors.New("tokenizer: the text has an unknown word, and the WordLevel vocabulary lacks the unk_token")
	}
	return append(dst, m.unk), nil
}

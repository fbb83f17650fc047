package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is byte pair encoding with a list of merges. It starts from single runes, or from single bytes when the vocabulary
// is byteLevel, and applies merges by rank.
type bpe struct {
	vocab *vocab
	pairs *pairTable

	ignoreMerges bool   // a word that is a token is not cut at all
	wholeLines   bool   // so is a run of newlines that is a token
	prefix       string // continuing_subword_prefix: put before every symbol of a word but the first
	suffix       string // end_of_word_suffix: put after the last symbol of a word
	unk          int32  // id for runes without a token, or -1
	unkName      string // the unk_token, which encoding complains about when the vocabulary lacks it
	fuseUnk      bool   // a run of unknown runes gives one unk
	byteID       [256]int32
	byteFallback bool // an unknown rune becomes the byte tokens <0x00> … <0xFF>; byteID holds their ids or -1

	cut wordCut
}

// newBPE finishes a bpe whose options are set: it looks up the tokens that the options name.
func newBPE(m *bpe, merges [][2]string) (*bpe, error) {
	m.pairs = newPairTable(len(merges))
	var joined []byte
	for rank, pair := range merges {
		left, right := m.vocab.id(pair[0]), m.vocab.id(pair[1])
		if left < 0 || right < 0 {
			return nil, fmt.Errorf("tokenizer: merge %d joins %q and %q, which are not both in the vocabulary", rank, pair[0], pair[1])
		}
		if len(pair[1]) < len(m.prefix) {
			return nil, fmt.Errorf("tokenizer: merge %d has right side %q, shorter than the continuing_subword_prefix %q", rank, pair[1], m.prefix)
		}
		leftKey, ok1 := m.vocab.bytes(left)
		rightKey, ok2 := m.vocab.bytes(right)
		if !ok1 || !ok2 {
			continue // a token outside the byte alphabet, which no text leads to
		}
		joined = append(append(joined[:0], leftKey...), rightKey[len(m.prefix):]...)
		id := m.vocab.lookupBytes(joined)
		if id < 0 {
			return nil, fmt.Errorf("tokenizer: merge %d joins %q and %q to a token that is not in the vocabulary", rank, pair[0], pair[1])
		}
		m.pairs.set(pairKey(left, right), newMerge(uint32(rank), id))
	}
	m.byteID = byteTokens(m.vocab)
	if m.vocab.byteLevel {
		for b := range m.byteID {
			m.byteID[b] = m.vocab.lookup(string([]byte{byte(b)}))
		}
	}
	m.unk = -1
	if m.unkName != "" {
		m.unk = m.vocab.id(m.unkName)
	}
	if m.prefix == "" && m.suffix == "" && !m.ignoreMerges {
		m.cut = findWordCut(merges)
	}
	return m, nil
}

func (m *bpe) appendIDs(dst []int32, word string, sc *scratch) ([]int32, error) {
	if m.ignoreMerges || m.wholeLines && strings.Trim(word, "\n") == "" {
		if id := m.vocab.lookup(word); id >= 0 {
			return append(dst, id), nil
		}
	}
	symbols := sc.merge.symbols[:0]
	if m.vocab.byteLevel {
		for i := range len(word) {
			symbols = append(symbols, m.byteID[word[i]])
		}
	} else {
		var err error
		if symbols, err = m.runes(symbols, word, sc); err != nil {
			return dst, err
		}
	}
	sc.merge.symbols = symbols
	return append(dst, m.pairs.mergeAll(symbols, &sc.merge)...), nil
}

// runes appends the first symbols of word, one for each rune where that has a token.
func (m *bpe) runes(symbols []int32, word string, sc *scratch) ([]int32, error) {
	unknown := false // an unk is due, but may still grow
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		key := word[i : i+n]
		if m.prefix != "" && i > 0 || m.suffix != "" && i+n == len(word) {
			sc.key = sc.key[:0]
			if i > 0 {
				sc.key = append(sc.key, m.prefix...)
			}
			sc.key = append(sc.key, key...)
			if i+n == len(word) {
				sc.key = append(sc.key, m.suffix...)
			}
			key = string(sc.key)
		}
		i += n
		if id := m.vocab.lookup(key); id >= 0 {
			if unknown {
				symbols, unknown = append(symbols, m.unk), false
			}
			symbols = append(symbols, id)
			continue
		}
		// As upstream has it, bytes overtake an unk that is due.
		if m.byteFallback && m.hasBytes(key) {
			for j := range len(key) {
				symbols = append(symbols, m.byteID[key[j]])
			}
			continue
		}
		if m.unkName == "" {
			continue // upstream drops runes it has no token for
		}
		if m.unk < 0 {
			return nil, fmt.Errorf("tokenizer: %q needs the unk_token %q, which is not in the vocabulary", key, m.unkName)
		}
		if unknown && !m.fuseUnk {
			symbols = append(symbols, m.unk)
		}
		unknown = true
	}
	if unknown {
		symbols = append(symbols, m.unk)
	}
	return symbols, nil
}

func (m *bpe) hasBytes(key string) bool {
	for i := range len(key) {
		if m.byteID[key[i]] < 0 {
			return false
		}
	}
	return true
}

// wordCut says where a text may be cut without changing what BPE makes of it: before every run of space, provided no merge
// joins anything else with what starts with space. Vocabularies from SentencePiece have no pre-tokenizer, so a whole
// prompt is one word to them; cut at ▁ it becomes words that are short and repeat.
type wordCut struct{ space string }

const metaspace = "▁"

func findWordCut(merges [][2]string) wordCut {
	for _, pair := range merges {
		if strings.HasPrefix(pair[1], metaspace) && !strings.HasSuffix(pair[0], metaspace) {
			return wordCut{}
		}
	}
	return wordCut{metaspace}
}

// next returns the end of the first word of s.
func (c wordCut) next(s string) int {
	if c.space == "" {
		return len(s)
	}
	for i := 0; i < len(s); {
		j := strings.Index(s[i:], c.space)
		if j < 0 {
			return len(s)
		}
		if i+j > 0 && !strings.HasSuffix(s[:i+j], c.space) {
			return i + j
		}
		i += j + len(c.space)
	}
	return len(s)
}

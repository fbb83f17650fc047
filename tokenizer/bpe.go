package tokenizer

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
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

// mergeList is merges by rank: the two tokens that merge number rank joins, or what is wrong with it. It may be asked from
// several goroutines.
type mergeList func(rank int) (left, right string, err error)

// newBPE finishes a bpe whose options are set: it looks up the tokens that the n merges and the options name.
func newBPE(m *bpe, n int, merges mergeList) (*bpe, error) {
	m.pairs = newPairTable(n)
	resolved := make([]resolvedMerge, n)
	parts := min(runtime.GOMAXPROCS(0), 1+n/10_000)
	var wg sync.WaitGroup
	for part := range parts {
		wg.Go(func() {
			m.resolve(merges, resolved, part*n/parts, (part+1)*n/parts)
		})
	}
	wg.Wait()
	for rank, r := range resolved {
		switch {
		case r.left < 0 || r.right < 0 || r.joined < 0 && !r.foreign:
			return nil, unresolved(merges, rank, r)
		case r.foreign:
		default:
			m.pairs.set(pairKey(r.left, r.right), newMerge(uint32(rank), r.joined))
		}
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
		m.cut = findWordCut(n, merges)
	}
	return m, nil
}

// resolvedMerge is a merge as ids, -1 for what is not in the vocabulary.
type resolvedMerge struct {
	left, right, joined int32
	foreign             bool // of a token outside the byte alphabet, which no text leads to
}

// resolve looks merges [from, to) up: three look-ups each, most of the time that loading takes.
func (m *bpe) resolve(merges mergeList, out []resolvedMerge, from, to int) {
	var joined []byte
	next := int32(-1)
	for i := from; i < to; i++ {
		left, right, err := merges(i)
		if err != nil {
			out[i] = resolvedMerge{left: -1}
			return
		}
		r := resolvedMerge{left: m.vocab.id(left), right: m.vocab.id(right), joined: -1}
		leftKey, ok1 := m.vocab.bytes(r.left)
		rightKey, ok2 := m.vocab.bytes(r.right)
		if r.foreign = !ok1 || !ok2; !r.foreign && len(rightKey) >= len(m.prefix) {
			joined = append(append(joined[:0], leftKey...), rightKey[len(m.prefix):]...)
			// Vocabularies mostly list merged tokens in the order of the merges.
			if key, ok := m.vocab.bytes(next); ok && string(key) == string(joined) {
				r.joined = next
			} else {
				r.joined = m.vocab.lookupBytes(joined)
			}
			next = r.joined + 1
		}
		out[i] = r
	}
}

// unresolved says what is wrong with a merge.
func unresolved(merges mergeList, rank int, r resolvedMerge) error {
	left, right, err := merges(rank)
	switch {
	case err != nil:
		return err
	case r.left < 0 || r.right < 0:
		return fmt.Errorf("tokenizer: merge %d joins %q and %q, which are not both in the vocabulary", rank, left, right)
	}
	return fmt.Errorf("tokenizer: merge %d joins %q and %q to a token that is not in the vocabulary", rank, left, right)
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

func findWordCut(n int, merges mergeList) wordCut {
	for rank := range n {
		if left, right, _ := merges(rank); strings.HasPrefix(right, metaspace) && !strings.HasSuffix(left, metaspace) {
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

package tokenizer

import (
	"errors"
	"math"
	"unicode/utf8"
)

// unknownPenalty is what an unknown rune costs, in log probability, below the least likely token.
const unknownPenalty = 10

// unigram cuts a word into the tokens whose log probabilities have the highest sum (Kudo 2018), by the Viterbi algorithm.
type unigram struct {
	vocab        *vocab
	trie         byteTrie // over the keys of all tokens
	score        []float64
	unk          int32   // or -1
	unkScore     float64 // the least score less unknownPenalty
	byteFallback bool    // unknown text becomes byte tokens
	byteID       [256]int32
}

// pathNode is the best way to cut a word up to one of its bytes.
type pathNode struct {
	score float64
	start int32 // where the last token starts; -1 while no way is known
	id    int32
}

// newUnigram builds the model over v, whose ids are the places in scores. Later of two equal tokens counts, as upstream.
func newUnigram(v *vocab, scores []float64, unk int32, byteFallback bool) *unigram {
	m := &unigram{vocab: v, score: scores, unk: unk, byteFallback: byteFallback}
	least := math.Inf(1)
	for _, s := range scores {
		least = min(least, s)
	}
	m.unkScore = least - unknownPenalty
	v.each(m.trie.add)
	m.byteID = byteTokens(v)
	return m
}

func (m *unigram) appendIDs(dst []int32, word string, sc *scratch) ([]int32, error) {
	if err := m.search(word, sc); err != nil {
		return dst, err
	}
	// Walk back from the end, then turn the ids round. A run of unknown runes is one piece.
	first := len(dst)
	path := sc.path
	for end := len(word); end > 0; {
		start, id := int(path[end].start), path[end].id
		if id == m.unk && id >= 0 {
			for start > 0 && path[start].id == m.unk {
				start = int(path[start].start)
			}
			dst = m.appendUnknown(dst, word[start:end])
		} else {
			dst = append(dst, id)
		}
		end = start
	}
	for i, j := first, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst, nil
}

// search fills sc.path, one node for each byte position of word, 0 to len(word).
func (m *unigram) search(word string, sc *scratch) error {
	path := sc.path[:0]
	for range len(word) + 1 {
		path = append(path, pathNode{start: -1})
	}
	sc.path = path
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		here, single := path[at].score, false
		offer := func(end int, score float64, id int32) {
			if n := &path[end]; n.start < 0 || score > n.score {
				*n = pathNode{score, int32(at), id}
			}
		}
		node := int32(0)
		for end := at; end < len(word); {
			if node = m.trie.child(node, word[end]); node < 0 {
				break
			}
			end++
			if id := m.trie.id(node); id >= 0 {
				offer(end, here+m.score[id], id)
				single = single || end == at+size
			}
		}
		if !single {
			if m.unk < 0 {
				return errors.New("tokenizer: the text has a rune without a token, and the Unigram model has no unk_id")
			}
			offer(at+size, here+m.unkScore, m.unk)
		}
		at += size
	}
	return nil
}

// appendUnknown appends what stands for text that is no token, back to front. Upstream looks the text up again, so a run
// of unknown runes that happens to be a token is that token.
func (m *unigram) appendUnknown(dst []int32, text string) []int32 {
	if id := m.vocab.lookup(text); id >= 0 {
		return append(dst, id)
	}
	if m.byteFallback {
		for i := range len(text) {
			if m.byteID[text[i]] < 0 {
				return append(dst, m.unk)
			}
		}
		for i := len(text) - 1; i >= 0; i-- {
			dst = append(dst, m.byteID[text[i]])
		}
		return dst
	}
	return append(dst, m.unk)
}

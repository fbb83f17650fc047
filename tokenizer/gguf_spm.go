package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// sentencePiece reads a "llama" vocabulary: SentencePiece BPE with scores.
func (g *ggufFile) sentencePiece() (err error) {
	t := g.t
	if t.vocab, err = g.vocabulary(false); err != nil {
		return err
	}
	if g.scores == nil {
		return fmt.Errorf("tokenizer: the GGUF metadata has no %s, which a \"llama\" vocabulary needs", keyScores)
	}
	t.bos, t.eos = g.idOr(keyBOS, 1), g.idOr(keyEOS, 2)
	m := &spm{vocab: t.vocab, rank: g.ranks(), byteID: byteTokens(t.vocab), unk: g.idOr(keyUnk, 0)}
	if m.unk < 0 {
		return fmt.Errorf("tokenizer: %s names no token", keyUnk)
	}
	// Older files have bytes that are tokens by themselves in place of <0xNN>.
	for b := range m.byteID {
		if m.byteID[b] < 0 {
			m.byteID[b] = t.vocab.lookupBytes([]byte{byte(b)})
		}
	}
	m.cut = findTokenCut(g.tokens)
	t.model, t.cut = m, m.cut

	front := stripDecoder{content: ' '}
	if g.meta.boolean(keyAddSpace, true) {
		front.start = 1
		if g.meta.boolean(keySpaceFirst, false) {
			t.pre = preTokenizers{metaspacer{mark: metaspace, scheme: prependFirst}}
		} else {
			t.norm = normalizers{prepend{metaspace}, replace{literal: " ", content: metaspace}}
		}
	} else {
		t.norm = replace{literal: " ", content: metaspace}
	}
	t.dec = decoders{spaces, byteFallbackDecoder{}, fuse{}, front}
	g.addEnds(true, false)
	return nil
}

// ranks numbers the scores from the highest, 0; equal scores get equal numbers. Control, unknown and byte tokens are
// never made of text, as in SentencePiece (llama.cpp lets a user spell </s> letter by letter).
func (g *ggufFile) ranks() []uint32 {
	order := make([]int32, len(g.tokens))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(g.scores[b], g.scores[a]) })
	ranks := make([]uint32, len(g.tokens))
	rank := uint32(0)
	for i, id := range order {
		if i > 0 && g.scores[id] != g.scores[order[i-1]] {
			rank = uint32(i)
		}
		if ranks[id] = rank; g.kind(int(id)) == typeControl || g.kind(int(id)) == typeUnknown || g.kind(int(id)) == typeByte {
			ranks[id] = noRank
		}
	}
	return ranks
}

// findTokenCut is findWordCut for a vocabulary without merges: no token may hold ▁ after anything else.
func findTokenCut(tokens []string) wordCut {
	for _, t := range tokens {
		if strings.Contains(strings.TrimLeft(t, metaspace), metaspace) {
			return wordCut{}
		}
	}
	return wordCut{metaspace}
}

// unigram reads a "t5" vocabulary: SentencePiece Unigram.
func (g *ggufFile) unigram() (err error) {
	t := g.t
	if t.vocab, err = g.vocabulary(false); err != nil {
		return err
	}
	if g.scores == nil {
		return fmt.Errorf("tokenizer: the GGUF metadata has no %s, which a \"t5\" vocabulary needs", keyScores)
	}
	blob, err := g.meta.blob(keyCharsmap)
	if err != nil {
		return err
	}
	n := &spmNormalizer{addSpace: g.meta.boolean(keyAddSpace, false), mergeSpaces: g.meta.boolean(keyMergeSpaces, false)}
	if len(blob) > 0 {
		if n.charsmap, err = newCharsmap(blob); err != nil {
			return err
		}
	}
	t.eos = g.idOr(keyEOS, 1)
	unk := g.idOr(keyUnk, 2)
	if unk < 0 {
		return errors.New("tokenizer: a \"t5\" vocabulary needs " + keyUnk)
	}
	t.model = g.unigramModel(unk, n)
	t.norm = n
	front := stripDecoder{content: ' '}
	if n.addSpace {
		front.start = 1
	}
	t.dec = decoders{spaces, byteFallbackDecoder{}, fuse{}, front}
	g.addEnds(false, true)
	return nil
}

// unigramModel leaves control and byte tokens out of what text can become; user-defined ones count as certain.
func (g *ggufFile) unigramModel(unk int32, n *spmNormalizer) *unigram {
	m := &unigram{vocab: g.t.vocab, score: slices.Clone(g.scores[:len(g.tokens)]), unk: unk, byteID: byteTokens(g.t.vocab)}
	least := math.Inf(1)
	for id, token := range g.tokens {
		switch g.kind(id) {
		case typeNormal:
			least = min(least, m.score[id])
			m.trie.add([]byte(token), int32(id))
		case typeUnused:
			m.trie.add([]byte(token), int32(id))
		case typeUserDefined:
			m.score[id] = 0
			m.trie.add([]byte(token), int32(id))
			if token != "" {
				n.userDefined.add(token, int32(id))
			}
		}
	}
	if m.unkScore = least - unknownPenalty; math.IsInf(least, 1) {
		m.unkScore = -unknownPenalty // no normal token at all
	}
	return m
}

// spmNormalizer is SentencePiece's own normaliser: the charsmap by longest match, and what is done with spaces.
type spmNormalizer struct {
	charsmap    *charsmap // or nil
	userDefined tokenTrie // texts that stay as they are
	addSpace    bool      // a space before the text
	mergeSpaces bool      // runs of spaces become one, those at the ends go
}

func (n *spmNormalizer) normalize(s string) string {
	var out strings.Builder
	inWord, begun := false, false
	put := func(text string) {
		for i := 0; i < len(text); i++ {
			if text[i] == ' ' {
				inWord = false
				if !n.mergeSpaces {
					out.WriteString(metaspace)
				}
				continue
			}
			if !inWord {
				inWord = true
				if n.addSpace && !begun || n.mergeSpaces {
					out.WriteString(metaspace)
					begun = true
				}
			}
			out.WriteByte(text[i])
		}
	}
	for i := 0; i < len(s); {
		if _, size := n.userDefined.longest(s, i); size > 0 {
			put(s[i : i+size])
			i += size
			continue
		}
		if n.charsmap != nil {
			if text, size := n.charsmap.prefix(s[i:], true); size > 0 {
				put(text)
				i += size
				continue
			}
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		put(s[i : i+size])
		i += size
	}
	return out.String()
}

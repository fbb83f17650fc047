package tokenizer

import "unicode/utf8"

// sentencePiece writes kind "llama". It has scores in place of merges: any two neighbours whose text together is a token
// merge, by its score. So the rank of the merges that make a token becomes its score, and a vocabulary where a pair that
// makes a token is no merge is refused.
func (w *ggufWriter) sentencePiece(m *bpe) {
	switch {
	case m.prefix != "" || m.suffix != "" || m.ignoreMerges:
		w.refuse("a continuing_subword_prefix, an end_of_word_suffix or ignore_merges beside SentencePiece merges")
	case m.unk < 0:
		w.refuse("a SentencePiece vocabulary without an unk_token")
	case !m.byteFallback && (m.fuseUnk || m.hasBytes("\x00")):
		w.refuse("fuse_unk, or byte tokens that are not used, in a SentencePiece vocabulary without byte_fallback")
	}
	w.spaces()
	if w.err != nil {
		return
	}
	scores := make([]float32, len(w.tokens))
	for i := range scores {
		scores[i] = -1e9
	}
	for _, s := range m.pairs.slots {
		if s.merge != noMerge {
			id := s.merge.id()
			scores[id] = max(scores[id], -float32(s.merge>>32)-1)
		}
	}
	for id := range w.types {
		if b, ok := byteToken(w.tokens[id]); ok && m.byteFallback && m.byteID[b] == int32(id) {
			w.types[id] = typeByte
		}
	}
	w.types[m.unk] = typeUnknown
	w.checkPairs(m)
	w.meta[keyModel], w.meta[keyPre], w.meta[keyScores] = "llama", "default", scores
	w.meta[keyUnk] = uint32(m.unk)
	w.ends()
}

// spaces writes what is done with spaces, told by the normalizer or by a Metaspace pre-tokenizer.
func (w *ggufWriter) spaces() {
	norms, pres := w.t.spec.Normalizer.normalizerList(), w.t.spec.PreTokenizer.preTokenizerList()
	escape := func(c *component) bool {
		return c.Type == "Replace" && c.Pattern.String != nil && *c.Pattern.String == " " && c.Content == metaspace
	}
	switch {
	case len(norms) == 2 && norms[0].Type == "Prepend" && norms[0].Prepend == metaspace && escape(norms[1]) && len(pres) == 0:
		w.meta[keyAddSpace] = true
	case len(norms) == 1 && escape(norms[0]) && (len(pres) == 0 || len(pres) == 1 && pres[0].Type == "Split" &&
		pres[0].Pattern.String != nil && *pres[0].Pattern.String == " "): // no space is left for the Split
		w.meta[keyAddSpace] = false
	case len(norms) == 0 && len(pres) == 1 && pres[0].Type == "Metaspace" && pres[0].Replacement == metaspace && !flag(pres[0].Split, true):
		ms, _ := pres[0].metaspacer()
		w.meta[keyAddSpace] = ms.scheme != prependNever
		if ms.scheme == prependFirst {
			w.meta[keySpaceFirst] = true
		}
	default:
		w.refuse("this normalizer and pre_tokenizer of a SentencePiece vocabulary; known are Prepend and Replace, Replace alone, and an unsplit Metaspace")
	}
}

// checkPairs refuses a vocabulary in which two tokens make a normal token together without being a merge.
func (w *ggufWriter) checkPairs(m *bpe) {
	for id, token := range w.tokens {
		if w.types[id] != typeNormal {
			continue
		}
		for cut := range token {
			if cut == 0 {
				continue
			}
			left, right := m.vocab.lookup(token[:cut]), m.vocab.lookup(token[cut:])
			if left >= 0 && right >= 0 && m.pairs.get(left, right) == noMerge && w.reachable(m, left) && w.reachable(m, right) {
				w.refuse("that %q and %q do not merge to %q, which is a token", token[:cut], token[cut:], token)
				return
			}
		}
	}
}

// reachable reports whether text can become the token: it is one rune, or some two tokens merge to it.
func (w *ggufWriter) reachable(m *bpe, id int32) bool {
	token := w.tokens[id]
	if w.types[id] != typeNormal {
		return false
	}
	if utf8.RuneCountInString(token) == 1 {
		return true
	}
	for cut := range token {
		if cut > 0 {
			left, right := m.vocab.lookup(token[:cut]), m.vocab.lookup(token[cut:])
			if left >= 0 && right >= 0 && m.pairs.get(left, right) != noMerge {
				return true
			}
		}
	}
	return false
}

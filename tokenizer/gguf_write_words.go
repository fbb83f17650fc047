package tokenizer

import (
	"encoding/base64"
	"strings"
)

// unigram writes kind "t5".
func (w *ggufWriter) unigram(m *unigram) {
	if m.unk < 0 || m.byteFallback {
		w.refuse("a Unigram vocabulary without unk_id, or with byte_fallback")
		return
	}
	w.extraSpaces()
	scores := make([]float32, len(w.tokens))
	for id, s := range m.score {
		scores[id] = float32(s)
	}
	w.types[m.unk] = typeUnknown
	w.meta[keyModel], w.meta[keyPre], w.meta[keyScores] = "t5", "default", scores
	w.meta[keyUnk] = uint32(m.unk)
	w.ends()
}

// extraSpaces writes the charsmap and what is done with spaces. Two ways to spell SentencePiece's own clean-up are known.
func (w *ggufWriter) extraSpaces() {
	norms, pres := w.t.spec.Normalizer.normalizerList(), w.t.spec.PreTokenizer.preTokenizerList()
	var names []string
	for _, c := range norms {
		names = append(names, c.Type)
		if c.Type == "Precompiled" {
			blob, err := base64.StdEncoding.DecodeString(c.Charsmap)
			if err != nil {
				w.err = err
			}
			w.meta[keyCharsmap] = blob
		}
	}
	names = append(names, "/")
	for _, c := range pres {
		names = append(names, c.Type)
	}
	last := metaspacer{}
	if n := len(pres); n > 0 && pres[n-1].Type == "Metaspace" {
		last, _ = pres[n-1].metaspacer()
	}
	if last.mark != metaspace || last.scheme == prependNever {
		w.refuse("a Unigram vocabulary whose words do not start with %s", metaspace)
	}
	switch strings.Join(names, " ") {
	case "Precompiled / WhitespaceSplit Metaspace":
	case "Precompiled Strip Replace / Metaspace":
		r := norms[2]
		if norms[1].StripLeft || !norms[1].StripRight || r.Pattern.Regex == nil || *r.Pattern.Regex != " {2,}" {
			w.refuse("this Strip and Replace of a Unigram vocabulary")
		}
	default:
		w.refuse("the normalizers and pre_tokenizers %q of a Unigram vocabulary", strings.Join(names, " "))
	}
	w.meta[keyAddSpace], w.meta[keyMergeSpaces] = true, true
}

// wordPiece writes kind "bert", in which ▁ marks the tokens that start a word.
func (w *ggufWriter) wordPiece(m *wordPiece) {
	norms, pres := w.t.spec.Normalizer.normalizerList(), w.t.spec.PreTokenizer.preTokenizerList()
	if len(norms) != 1 || norms[0].Type != "BertNormalizer" || !flag(norms[0].CleanText, true) || !flag(norms[0].Chinese, true) ||
		len(pres) != 1 || pres[0].Type != "BertPreTokenizer" {
		w.refuse("a WordPiece vocabulary without the BertNormalizer, with clean_text and handle_chinese_chars, and the BertPreTokenizer")
		return
	}
	before, after := w.t.post.prefix(), w.t.post.suffix()
	if m.prefix != "##" || m.maxRunes != 100 || m.unk < 0 || len(before) != 1 || len(after) != 1 {
		w.refuse("a WordPiece vocabulary without [UNK], [CLS] and [SEP], or with another prefix than ## or another limit than 100 characters")
		return
	}
	for id, token := range w.tokens {
		rest, continues := strings.CutPrefix(token, "##")
		switch {
		case w.types[id] != typeNormal || isBracketed(token):
		case continues && !isBracketed(rest) && !strings.HasPrefix(rest, metaspace):
			w.tokens[id] = rest
		case continues:
			w.refuse("the WordPiece token %q", token)
		default:
			w.tokens[id] = metaspace + token
		}
	}
	w.types[m.unk] = typeUnknown
	lower := flag(norms[0].Lowercase, true)
	w.meta[keyModel], w.meta[keyPre] = "bert", "default"
	w.meta[keyBOS], w.meta[keySep], w.meta[keyUnk] = uint32(before[0]), uint32(after[0]), uint32(m.unk)
	w.meta[keyLowercase], w.meta[keyStripAccents] = lower, flag(norms[0].Accents, lower)
}

// isBracketed holds for [CLS] and its like, which kind "bert" does not mark.
func isBracketed(token string) bool {
	return strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]")
}

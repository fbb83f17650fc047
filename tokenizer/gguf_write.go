package tokenizer

import (
	"fmt"
	"slices"
)

// GGUF returns the metadata by which FromGGUF and llama.cpp make the same tokenizer: keys as in the file, values of type
// string, bool, uint32, []string, []float32, []int32 and []uint8. rows is the number of rows of the model's embedding
// table; ids below it without a token get one of type unused. What the format cannot say is refused by name, not approximated,
// with one exception: added tokens that take white space with them are told by keys of our own (tokenizer.ridge.…), which
// other programs do not read.
func (t *Tokenizer) GGUF(rows int) (map[string]any, error) {
	if rows < t.idLimit {
		return nil, fmt.Errorf("tokenizer: the model has %d rows of embeddings for %d token ids", rows, t.idLimit)
	}
	w := &ggufWriter{t: t, meta: map[string]any{}}
	w.addedTokens(rows)
	switch m := t.model.(type) {
	case *bpe:
		if t.spec.PreTokenizer.endsInByteLevel() {
			w.byteLevel(m)
		} else {
			w.sentencePiece(m)
		}
	case *unigram:
		w.unigram(m)
	case *wordPiece:
		w.wordPiece(m)
	default:
		w.refuse("a vocabulary of this kind, or one that came from GGUF metadata (copy that instead)")
	}
	return w.meta, w.err
}

type ggufWriter struct {
	t      *Tokenizer
	meta   map[string]any
	tokens []string // by id
	types  []int32
	err    error
}

// refuse says what GGUF cannot express; the first such thing counts.
func (w *ggufWriter) refuse(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("tokenizer: GGUF cannot express "+format, args...)
	}
}

// addedTokens lists all tokens with their types, and the flags of added ones.
func (w *ggufWriter) addedTokens(rows int) {
	w.tokens, w.types = make([]string, rows), make([]int32, rows)
	var left, right, single []int32
	for id := range int32(rows) {
		text, ok := w.t.Token(id)
		w.tokens[id], w.types[id] = text, typeNormal
		if !ok || text == "" {
			w.tokens[id], w.types[id] = fmt.Sprintf("[PAD%d]", id), typeUnused
		}
		a, ok := w.t.added.tokens[id]
		if !ok {
			continue
		}
		if w.types[id] = typeUserDefined; a.Special {
			w.types[id] = typeControl
		}
		if form, changed := w.t.added.decoded[id]; changed {
			w.refuse("the added token %q, which is looked for in its normalised form %q", a.Content, form)
		}
		for list, set := range map[*[]int32]bool{&left: a.LStrip, &right: a.RStrip, &single: a.SingleWord} {
			if set {
				*list = append(*list, id)
			}
		}
	}
	w.meta[keyTokens], w.meta[keyTypes] = w.tokens, w.types
	for key, ids := range map[string][]int32{keyLStrip: left, keyRStrip: right, keySingleWord: single} {
		if ids != nil {
			w.meta[key] = ids
		}
	}
}

// ends writes BOS and EOS and whether they are added.
func (w *ggufWriter) ends() {
	before, after := w.t.post.prefix(), w.t.post.suffix()
	bos, eos := w.t.bos, w.t.eos
	if eos < 0 && len(after) == 1 {
		eos = after[0] // no tokenizer_config.json says so, but what else would it be
	}
	if bos < 0 && len(before) == 1 {
		bos = before[0]
	}
	if len(before) > 0 && !slices.Equal(before, []int32{bos}) || len(after) > 0 && !slices.Equal(after, []int32{eos}) {
		w.refuse("a post-processor that puts the ids %v before a text and %v after it; only BOS and EOS can go there", before, after)
	}
	if bos >= 0 {
		w.meta[keyBOS] = uint32(bos)
	}
	if eos >= 0 {
		w.meta[keyEOS] = uint32(eos)
	}
	w.meta[keyAddBOS], w.meta[keyAddEOS] = len(before) > 0, len(after) > 0
}

// byteLevel writes kind "gpt2".
func (w *ggufWriter) byteLevel(m *bpe) {
	if m.prefix != "" || m.suffix != "" {
		w.refuse("a continuing_subword_prefix or end_of_word_suffix")
	}
	nfc := false
	for _, n := range w.t.spec.Normalizer.normalizerList() {
		if n.Type != "NFC" {
			w.refuse("the normalizer %s of a byte-level vocabulary", n.Type)
		}
		nfc = true
	}
	var patterns []string
	for _, p := range w.t.spec.PreTokenizer.preTokenizerList() {
		patterns = append(patterns, w.pattern(p)...)
	}
	i := slices.IndexFunc(preKinds, func(k preKind) bool {
		return !k.runes && k.nfc == nfc && k.ignoreMerges == m.ignoreMerges && slices.EqualFunc(k.patterns, patterns, samePattern)
	})
	if i < 0 {
		w.refuse("the split patterns %q with NFC %v and ignore_merges %v: no name of %s stands for them", patterns, nfc, m.ignoreMerges, keyPre)
		return
	}
	w.meta[keyModel], w.meta[keyPre] = "gpt2", preKinds[i].names[0]
	w.meta[keyMerges] = m.mergeLines()
	w.ends()
}

// samePattern compares patterns apart from how Oniguruma lets them be spelled.
func samePattern(a, b string) bool { return translatePattern(a) == translatePattern(b) }

// pattern returns what a pre-tokenizer of a byte-level vocabulary splits at.
func (w *ggufWriter) pattern(c *component) []string {
	switch {
	case c.Type == "Split" && c.Pattern.Regex != nil && !c.Invert && behaviors[c.Behavior] == isolated,
		c.Type == "Split" && c.Pattern.Regex != nil && c.Invert && behaviors[c.Behavior] == removed && knownTiler(*c.Pattern.Regex) != nil:
		return []string{*c.Pattern.Regex}
	case c.Type == "Digits" && c.Individual:
		return []string{patternNumber}
	case c.Type == "ByteLevel" && !flag(c.PrefixSpace, true):
		if flag(c.UseRegex, true) {
			return []string{patternGPT2}
		}
		return nil
	case c.Type == "ByteLevel":
		w.refuse("add_prefix_space of the ByteLevel pre_tokenizer")
	default:
		w.refuse("the pre_tokenizer %s with this pattern and behavior", c.Type)
	}
	return nil
}

// mergeLines lists the merges by rank, as "left right".
func (m *bpe) mergeLines() []string {
	slots := slices.DeleteFunc(slices.Clone(m.pairs.slots), func(s pairSlot) bool { return s.merge == noMerge })
	slices.SortFunc(slots, func(a, b pairSlot) int { return int(a.merge>>32) - int(b.merge>>32) })
	lines := make([]string, len(slots))
	for i, s := range slots {
		left, _ := m.vocab.text(int32(s.key >> 32))
		right, _ := m.vocab.text(int32(uint32(s.key)))
		lines[i] = left + " " + right
	}
	return lines
}

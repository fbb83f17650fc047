package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// FromGGUF makes the tokenizer that the metadata of a GGUF file describes. Keys are those of the file
// (tokenizer.ggml.model and so on), values have the Go types that a reader of the format gives: string, bool, numbers of
// any width, and slices of these.
//
// The vocabularies are llama.cpp's "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (Unigram), "bert" (WordPiece)
// and "gemma4". A GGUF file does not hold a normaliser; names of tokenizer.ggml.pre whose original tokenizers normalise to
// NFC (qwen2, command-r …) bring it with them here, which llama.cpp leaves out.
func FromGGUF(meta map[string]any) (*Tokenizer, error) {
	g := &ggufFile{meta: ggufMeta(meta), t: &Tokenizer{bos: -1, eos: -1}}
	if err := g.tokenList(); err != nil {
		return nil, err
	}
	n := len(g.tokens)
	g.t.bos, g.t.eos = g.meta.id(keyBOS, n), g.meta.id(keyEOS, n)
	var err error
	switch model := g.meta.str(keyModel); model {
	case "gpt2", "gemma4":
		err = g.bytePairs(model)
	case "llama":
		err = g.sentencePiece()
	case "t5":
		err = g.unigram()
	case "bert":
		err = g.wordPiece()
	case "":
		err = fmt.Errorf("tokenizer: the GGUF metadata has no %s; the file has no tokenizer", keyModel)
	default:
		err = fmt.Errorf("tokenizer: %s is %q; known are gpt2, llama, t5, bert and gemma4", keyModel, model)
	}
	if err != nil {
		return nil, err
	}
	added, err := g.added()
	if err != nil {
		return nil, err
	}
	g.t.added = newAddedVocab(added, g.t.vocab, nil)
	g.t.findEnds(g.meta.id(keyEOT, n), g.meta.id(keyEOM, n))
	g.t.findFIM(g.fim())
	return g.t.finish(), nil
}

// fim is the tokens of FIM that the file names by their ids, -1 where it names none; older files have other keys for three of them.
func (g *ggufFile) fim() FIM {
	id := func(keys ...string) int32 {
		for _, key := range keys {
			if id := g.meta.id("tokenizer.ggml."+key, len(g.tokens)); id >= 0 {
				return id
			}
		}
		return -1
	}
	return FIM{
		Prefix: id("fim_pre_token_id", "prefix_token_id"), Suffix: id("fim_suf_token_id", "suffix_token_id"), Middle: id("fim_mid_token_id", "middle_token_id"),
		Repo: id("fim_rep_token_id"), File: id("fim_sep_token_id"), Ends: []int32{id("fim_pad_token_id")},
	}
}

// ggufFile is a tokenizer while it is read from GGUF metadata.
type ggufFile struct {
	meta   ggufMeta
	t      *Tokenizer
	tokens []string
	types  []int32   // as long as tokens, or nil
	scores []float64 // as long as tokens, or nil
}

func (g *ggufFile) tokenList() (err error) {
	var ok bool
	if g.tokens, ok = g.meta[keyTokens].([]string); !ok {
		return fmt.Errorf("tokenizer: the GGUF metadata has no list of strings %s", keyTokens)
	}
	if g.types, err = g.meta.integers(keyTypes); err != nil {
		return err
	}
	if g.scores, err = g.meta.floats(keyScores); err != nil {
		return err
	}
	for key, n := range map[string]int{keyTypes: len(g.types), keyScores: len(g.scores)} {
		if n != 0 && n < len(g.tokens) {
			return fmt.Errorf("tokenizer: %s has %d entries for %d tokens", key, n, len(g.tokens))
		}
	}
	return nil
}

func (g *ggufFile) kind(id int) int32 {
	if len(g.types) == 0 {
		return typeNormal
	}
	return g.types[id]
}

func (g *ggufFile) vocabulary(byteLevel bool) (*vocab, error) {
	v := newVocab(len(g.tokens), byteLevel)
	for id, token := range g.tokens {
		if token == "" {
			token = fmt.Sprintf("[EMPTY_%d]", id) // llama.cpp's name for padding
		}
		old, err := v.add(token, int64(id))
		if err != nil {
			return nil, err
		}
		if old >= 0 {
			return nil, fmt.Errorf("tokenizer: %s has %q twice, at %d and %d", keyTokens, token, old, id)
		}
	}
	return v, nil
}

// added lists the tokens that are recognised in text. End-of-turn tokens count as special whatever the file says, as in
// llama.cpp, because a wrong type there would show them to users.
func (g *ggufFile) added() ([]AddedToken, error) {
	var list []AddedToken
	for id, token := range g.tokens {
		kind := g.kind(id)
		special := kind == typeControl || kind == typeUnknown || kind != typeUserDefined && isEndName(token)
		if token != "" && (special || kind == typeUserDefined) {
			list = append(list, AddedToken{ID: int32(id), Content: token, Special: special, RStrip: g.stripsRight(token)})
		}
	}
	at := func(id int32) (int, bool) {
		return slices.BinarySearchFunc(list, id, func(t AddedToken, id int32) int { return int(t.ID) - int(id) })
	}
	for key, set := range map[string]func(*AddedToken){
		keyLStrip:     func(t *AddedToken) { t.LStrip = true },
		keyRStrip:     func(t *AddedToken) { t.RStrip = true },
		keySingleWord: func(t *AddedToken) { t.SingleWord = true },
	} {
		ids, err := g.meta.integers(key)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if i, ok := at(id); ok {
				set(&list[i])
			}
		}
	}
	return list, nil
}

// stripsRight knows the one model family whose files lack that its added tokens take white space with them: like
// llama.cpp, it goes by the name of the model.
func (g *ggufFile) stripsRight(token string) bool {
	name := strings.ToLower(g.meta.str(keyName))
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	return phi3 && token != "<unk>" && token != "<s>" && token != "<|endoftext|>"
}

// addEnds sets the template for BOS and EOS, by the file's flags or else by what the kind does.
func (g *ggufFile) addEnds(bos, eos bool) {
	t := template{nil}
	if g.meta.boolean(keyAddBOS, bos) && g.t.bos >= 0 {
		t = append(template{{g.t.bos}}, t...)
	}
	if g.meta.boolean(keyAddEOS, eos) && g.t.eos >= 0 {
		t = append(t, []int32{g.t.eos})
	}
	if g.t.post = t; len(t) == 3 { // as RoBERTa has it; GGUF has no key for pairs
		bos, eos := t[0], t[2]
		g.t.joint = &joint{bos, slices.Concat(eos, eos), eos}
	}
}

// bytePairs reads a BPE vocabulary with merges: "gpt2" over bytes, "gemma4" over runes.
func (g *ggufFile) bytePairs(model string) (err error) {
	name := g.meta.str(keyPre)
	if model == "gemma4" {
		name = model
	}
	pre, err := findPre(name)
	if err != nil {
		return err
	}
	lines, ok := g.meta[keyMerges].([]string)
	if !ok {
		return fmt.Errorf("tokenizer: the GGUF metadata has no list of strings %s, which a %q vocabulary needs", keyMerges, model)
	}
	t := g.t
	if t.pre, err = pre.splitters(); err != nil {
		return err
	}
	b := &bpe{ignoreMerges: pre.ignoreMerges, byteFallback: pre.runes, wholeLines: pre.runes}
	if pre.runes {
		t.norm = replace{literal: " ", content: metaspace}
		t.dec = decoders{spaces, byteFallbackDecoder{}, fuse{}}
		t.vocab, err = g.vocabulary(false)
	} else {
		if pre.nfc {
			t.norm = unicodeForm{norm.NFC}
		}
		t.dec = byteLevelDecoder{}
		t.vocab, err = g.vocabulary(true)
		if err == nil && !t.vocab.hasAllBytes() {
			t.pre = append(t.pre, byteLevel{spell: true})
			t.vocab, err = g.vocabulary(false)
		}
	}
	if err != nil {
		return err
	}
	b.vocab = t.vocab
	if b, err = newBPE(b, len(lines), mergeLines(lines)); err != nil {
		return err
	}
	t.model = b
	g.addEnds(pre.addBOS, false)
	return nil
}

// spaces makes spaces of ▁ when decoding.
var spaces = eachToken(func(t string, _ bool) string { return strings.ReplaceAll(t, metaspace, " ") })

// mergeLines reads "left right" lines. The space that parts them is the first one that is not the first byte: a token may
// be a space.
func mergeLines(lines []string) mergeList {
	return func(rank int) (left, right string, err error) {
		line, at := lines[rank], -1
		if line != "" {
			at = strings.IndexByte(line[1:], ' ') + 1
		}
		if at < 1 {
			return "", "", fmt.Errorf("tokenizer: %s[%d] is %q, not two tokens with a space between", keyMerges, rank, line)
		}
		return line[:at], line[at+1:], nil
	}
}

// wordPiece reads a "bert" vocabulary. It marks the tokens that start words, with ▁; here, as in the original files, ##
// marks those that do not.
func (g *ggufFile) wordPiece() (err error) {
	t := g.t
	spelled := make([]string, len(g.tokens))
	for id, token := range g.tokens {
		rest, starts := strings.CutPrefix(token, metaspace)
		switch {
		case starts:
			spelled[id] = rest
		case token == "" || g.kind(id) != typeNormal || isBracketed(token):
			spelled[id] = token
		default:
			spelled[id] = "##" + token
		}
	}
	g.tokens = spelled
	if t.vocab, err = g.vocabulary(false); err != nil {
		return err
	}
	g.t.bos = g.idOr(keyBOS, 101)
	sep := g.idOr(keySep, 102)
	t.model = newWordPiece(t.vocab, g.idOr(keyUnk, 100), "##", 100)
	lower := g.meta.boolean(keyLowercase, true)
	t.norm = bertNormalizer{cleanText: true, spaceChinese: true, lowercase: lower, stripAccents: g.meta.boolean(keyStripAccents, lower)}
	t.pre = bertPreTokenizer
	t.dec = wordPieceDecoder("##", true)
	if t.bos >= 0 && sep >= 0 {
		t.post = wrapped(t.bos, sep)
		t.joint = &joint{[]int32{t.bos}, []int32{sep}, []int32{sep}}
	}
	return nil
}

// idOr reads an id, or gives the one that files of the kind mean when they do not say, if there is such a token.
func (g *ggufFile) idOr(key string, otherwise int32) int32 {
	if _, given := g.meta[key]; given || int(otherwise) >= len(g.tokens) {
		return g.meta.id(key, len(g.tokens))
	}
	return otherwise
}

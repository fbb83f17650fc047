package tokenizer

import (
	"maps"
	"slices"
	"sync"
)

// A Tokenizer turns text into token ids and back. It is made by [FromJSON] or [FromGGUF], does not change afterwards,
// and may be used by any number of goroutines at once.
type Tokenizer struct {
	vocab   *vocab
	added   *addedVocab
	norm    normalizer   // or nil
	dropper startDropper // norm, if it can take away the start of a text; or nil
	pre     preTokenizers
	model   model
	cut     wordCut // where words may be cut once more, to be remembered better
	post    template
	joint   *joint        // or nil: two texts are not read together
	dec     decoder       // or nil: tokens are joined with spaces
	steps   *pieceDecoder // dec as a function of single tokens, or nil when it is none

	bos, eos int32   // or -1
	ends     []int32 // ids that end a turn or a text
	fim      *FIM    // nil: the model fills in no middle
	cleanUp  bool    // clean_up_tokenization_spaces
	spec     spec    // the parts as they were written, for GGUF
	words    *wordCache
	encoders sync.Pool // of *encoder
	idLimit  int
	bytes    int // of text, that a token may stand for at most; 0: any number, or not known
}

// Options say how text is read.
type Options struct {
	Special      bool // add what the model expects around a text: BOS, EOS, [CLS] …
	ParseSpecial bool // recognise special tokens written in the text; off for text from users
	// Mark, if not "", is left out of the text once tokens written in it have been looked for: one with a mark inside is only text.
	Mark string
	// Most, if not 0, is how many tokens are wanted: more of them, and the rest of the text is not read.
	Most int
}

// finish sets up what is derived from the parts. Every loader ends with it.
func (t *Tokenizer) finish() *Tokenizer {
	t.words = newWordCache()
	if t.post == nil {
		t.post = template{nil}
	}
	t.dropper = dropperOf(t.norm)
	t.encoders.New = func() any { return newEncoder(t) }
	t.idLimit = t.vocab.idLimit()
	for id := range t.added.tokens {
		t.idLimit = max(t.idLimit, int(id)+1)
	}
	t.steps = compilePieces(t.dec)
	t.bytes = t.longest()
	return t
}

// VocabSize is one more than the highest id.
func (t *Tokenizer) VocabSize() int { return t.idLimit }

// Token returns a token as the vocabulary file spells it (a space is Ġ or ▁ there); ok is false for ids without one.
func (t *Tokenizer) Token(id int32) (text string, ok bool) {
	if a, ok := t.added.tokens[id]; ok {
		return a.Content, true
	}
	return t.vocab.text(id)
}

// BOS is the id of the token that starts a text, EOS of the one that ends it; ok is false when the files name none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos >= 0 }
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos >= 0 }

// Ends lists the ids after which a model has nothing more to say: EOS, and the end-of-turn tokens that can be told by
// their name (<|eot_id|>, <|im_end|> …), in ascending order. A generation_config.json, where there is one, knows better.
func (t *Tokenizer) Ends() []int32 { return slices.Clone(t.ends) }

// Controls are the names of the special tokens, and of the other added tokens that are written in brackets, as <think> or [INST].
func (t *Tokenizer) Controls() (special, bracketed []string) {
	for _, id := range slices.Sorted(maps.Keys(t.added.tokens)) {
		a := t.added.tokens[id]
		switch n := len(a.Content); {
		case a.Special:
			special = append(special, a.Content)
		case n > 2 && (a.Content[0] == '<' && a.Content[n-1] == '>' || a.Content[0] == '[' && a.Content[n-1] == ']'):
			bracketed = append(bracketed, a.Content)
		}
	}
	return special, bracketed
}

// IsSpecial reports whether id is a token that steers the model rather than text.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.added.tokens[id].Special }

// endNames are the end-of-turn and end-of-text tokens of known model families.
var endNames = []string{
	"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>",
	"<|end_of_text|>", "<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>", "<turn|>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>",
}

func isEndName(token string) bool {
	return token != "" && (token[0] == '<' || token[0] == '[') && slices.Contains(endNames, token)
}

// findEnds lists eos and the special tokens among endNames, plus more.
func (t *Tokenizer) findEnds(more ...int32) {
	ids := append([]int32{t.eos}, more...)
	for _, name := range endNames {
		if id, ok := t.added.ids[name]; ok && t.added.tokens[id].Special {
			ids = append(ids, id)
		}
	}
	// In the harmony format <|end|> ends a message, not the answer.
	end, hasEnd := t.added.ids["<|end|>"]
	_, hasReturn := t.added.ids["<|return|>"]
	slices.Sort(ids)
	ids = slices.Compact(ids)
	t.ends = slices.DeleteFunc(ids, func(id int32) bool { return id < 0 || hasEnd && hasReturn && id == end })
}

package convert

import (
	"fmt"

	"github.com/ridge-llm/ridge/internal/modeldir"
)

// dummySpecial are the tokens at the end of a dummy's vocabulary; the last ends a text.
var dummySpecial = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

const dummyTemplate = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// Token types of GGUF.
const (
	normalToken  = int32(1)
	controlToken = int32(3)
	unusedToken  = int32(5)
)

// dummyText adds a byte-level BPE vocabulary of n tokens that any reader of GGUF takes: the 256 bytes, then pieces of
// two, three and four letters, with and without a space before them, by how common their letters are, then the special
// tokens.
func dummyText(meta map[string]any, n int) error {
	v := &dummyVocab{room: n - len(dummySpecial)}
	if v.room < 256 {
		return fmt.Errorf("convert: a vocabulary of %d tokens is too small for 256 bytes and %d special tokens", n, len(dummySpecial))
	}
	for _, r := range byteRunes() {
		v.tokens = append(v.tokens, string(r))
	}
	v.grow()
	types := make([]int32, n)
	for i := range types {
		types[i] = normalToken
		if i >= len(v.tokens) {
			types[i] = unusedToken
		}
	}
	for len(v.tokens) < v.room {
		v.tokens = append(v.tokens, fmt.Sprintf("[PAD%d]", len(v.tokens)))
	}
	for i, s := range dummySpecial {
		v.tokens = append(v.tokens, s)
		types[v.room+i] = controlToken
	}
	meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"] = "gpt2", "gpt-2"
	meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"], meta["tokenizer.ggml.merges"] = v.tokens, types, v.merges
	meta["tokenizer.ggml.eos_token_id"] = uint32(n - 1)
	meta["tokenizer.ggml.bos_token_id"] = uint32(n - len(dummySpecial))
	meta["tokenizer.ggml.add_bos_token"] = false
	meta[modeldir.TemplateKey] = dummyTemplate
	return nil
}

// byteRunes are the printable runes by which byte-level BPE writes bytes (GPT-2's bytes_to_unicode): a printable byte
// is itself, the others follow from 256 on.
func byteRunes() [256]rune {
	var runes [256]rune
	next := rune(256)
	for b := range runes {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			runes[b] = rune(b)
		} else {
			runes[b] = next
			next++
		}
	}
	return runes
}

type dummyVocab struct {
	room   int
	tokens []string
	merges []string
}

const (
	spaceRune = "Ġ"
	letters   = "etaoinshrdlucmfwypvgbkjqxz" // by how common they are in English
)

// grow adds pieces until there is no more room. Every piece has one merge that makes it, so none occurs twice.
func (v *dummyVocab) grow() {
	var one []string
	for _, r := range letters {
		one = append(one, string(r))
	}
	space := []string{spaceRune}
	two := v.join(one, one)
	v.join(space, one)
	v.join(space, two)
	three := v.join(two, one)
	v.join(space, three)
	v.join(two, two)
}

// join adds every left with every right behind it.
func (v *dummyVocab) join(left, right []string) []string {
	var made []string
	for _, a := range left {
		for _, b := range right {
			if len(v.tokens) == v.room {
				return made
			}
			v.tokens = append(v.tokens, a+b)
			v.merges = append(v.merges, a+" "+b)
			made = append(made, a+b)
		}
	}
	return made
}

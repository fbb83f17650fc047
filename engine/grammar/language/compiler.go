package language

import (
	"context"
	"errors"

	"github.com/ridge-llm/ridge/engine/grammar"
)

// memory is how much the compiled grammars of a model may take, in bytes; a usual one takes well below 1 MiB.
const memory = 256 << 20

// Compiler compiles languages for the tokens of one model. Any number of goroutines may use it.
type Compiler struct {
	cache    *grammar.Cache
	specials []string
}

// Tokenizer is what a compiler asks of a model's tokenizer.
type Tokenizer interface {
	TokenBytes(id int32) []byte
	IsSpecial(id int32) bool
	Token(id int32) (string, bool)
}

// NewCompiler takes a model's tokenizer, the size of its vocabulary, the tokens that end an answer, and what splits a text
// that stands alone into tokens.
func NewCompiler(t Tokenizer, vocab int, ends []int32, encode func(text string) ([]int32, error)) (*Compiler, error) {
	c := &Compiler{}
	e := encoder{t, encode}
	tokens := grammar.Tokens{Bytes: make([][]byte, vocab), Special: map[int32]string{}, Ends: ends, Encode: e.rest}
	for id := range tokens.Bytes {
		tokens.Bytes[id] = t.TokenBytes(int32(id))
		if t.IsSpecial(int32(id)) {
			name, _ := t.Token(int32(id))
			tokens.Special[int32(id)] = name
			c.specials = append(c.specials, name)
		}
	}
	v, err := grammar.NewVocabulary(tokens)
	if err != nil {
		return nil, err
	}
	c.cache = grammar.NewCache(v, memory)
	return c, nil
}

// Specials is the names of the model's special tokens. It must not be changed.
func (c *Compiler) Specials() []string { return c.specials }

// Compile compiles a language, which is not any text, or finds it compiled: what was asked for lately is kept. A language
// that cannot be enforced is refused with an *Error; what its owner has no turn for, with a *grammar.BusyError. The error is ctx's when that is done.
func (c *Compiler) Compile(ctx context.Context, l Language) (*grammar.Automaton, error) {
	a, err := c.cache.Get(ctx, l.owner, l.source, l.read)
	var wrong *Error
	var busy *grammar.BusyError
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil || errors.As(err, &busy) || errors.As(err, &wrong):
		return nil, err
	}
	return nil, &Error{Tool: -1, Err: err}
}

// encoder splits texts that follow others into tokens.
type encoder struct {
	tokenizer Tokenizer
	encode    func(text string) ([]int32, error)
}

// rest splits a text that follows another into tokens. Tokenizers that put a space before a text put it before the line break
// here, whose tokens are then left out.
func (e encoder) rest(text string) []int32 {
	ids, err := e.encode(text)
	if err == nil && e.spells(ids, text) {
		return ids
	}
	ids, err = e.encode("\n" + text)
	for n := 1; err == nil && n < min(len(ids), 4); n++ {
		if e.spells(ids[n:], text) {
			return ids[n:]
		}
	}
	return nil
}

// spells reports whether tokens in the middle of a text are this text.
func (e encoder) spells(ids []int32, text string) bool {
	for _, id := range ids {
		b := e.tokenizer.TokenBytes(id)
		if len(b) > len(text) || text[:len(b)] != string(b) {
			return false
		}
		text = text[len(b):]
	}
	return text == ""
}

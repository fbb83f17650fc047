package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/tokenizer"
)

// Constraint keeps answers inside a language. It serves any number of requests; see Model.Constrain. A nil one allows
// everything.
type Constraint struct{ automaton *grammar.Automaton }

// Constrain compiles a language for the model's tokens, or finds it compiled: what was asked for lately is kept. A
// language that cannot be is refused with a *LanguageError.
func (m *Model) Constrain(l Language) (*Constraint, error) {
	if l.Any() {
		return nil, nil
	}
	c, err := m.grammars()
	if err != nil {
		return nil, err
	}
	return c.constraint(l.source, func() (*grammar.Grammar, error) { return l.read(written) })
}

// grammars compiles languages for one model.
type grammars struct {
	cache    *grammar.Cache
	specials []string // the names of its special tokens
}

func (c *grammars) constraint(source string, read func() (*grammar.Grammar, error)) (*Constraint, error) {
	a, err := c.cache.Get(source, read)
	var wrong *LanguageError
	switch {
	case errors.As(err, &wrong):
		return nil, err
	case err != nil:
		return nil, &LanguageError{Tool: -1, Err: err}
	}
	return &Constraint{a}, nil
}

// grammarMemory is how much compiled grammars may take, in bytes; a usual one takes well below 1 MiB.
const grammarMemory = 256 << 20

func (m *Model) newGrammars() (*grammars, error) {
	c := &grammars{}
	t := grammar.Tokens{Bytes: make([][]byte, m.Vocab()), Special: map[int32]string{}, Ends: m.ends, Encode: m.encodeRest}
	for id := range t.Bytes {
		t.Bytes[id] = m.tokenizer.TokenBytes(int32(id))
		if m.tokenizer.IsSpecial(int32(id)) {
			name, _ := m.tokenizer.Token(int32(id))
			t.Special[int32(id)] = name
			c.specials = append(c.specials, name)
		}
	}
	v, err := grammar.NewVocabulary(t)
	if err != nil {
		return nil, fmt.Errorf("ridge: the tokens of %s cannot follow a grammar: %w", m.name, err)
	}
	c.cache = grammar.NewCache(v, grammarMemory)
	return c, nil
}

// encodeRest splits a text that follows others into tokens. Tokenizers that put a space before a text put it before the
// line break here, with which the tokens of the text itself are then left out.
func (m *Model) encodeRest(text string) []int32 {
	ids, err := m.tokenizer.Encode(text, tokenizer.Options{})
	if err == nil && m.isText(ids, text) {
		return ids
	}
	ids, err = m.tokenizer.Encode("\n"+text, tokenizer.Options{})
	for n := 1; err == nil && n < min(len(ids), 4); n++ {
		if m.isText(ids[n:], text) {
			return ids[n:]
		}
	}
	return nil
}

// isText reports whether tokens in the middle of a text spell this.
func (m *Model) isText(ids []int32, text string) bool {
	for _, id := range ids {
		b := m.tokenizer.TokenBytes(id)
		if len(b) > len(text) || text[:len(b)] != string(b) {
			return false
		}
		text = text[len(b):]
	}
	return text == ""
}

// constrain gives a request its place in the language.
func (c *Constraint) constrain(r *engine.Request) (err error) {
	if c == nil {
		return nil
	}
	r.Grammar, err = c.automaton.Start()
	return err
}

package ridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/chat/reply"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/grammar/language"
	"github.com/ridge-llm/ridge/tokenizer"
)

type (
	// Language is a set of texts that answers can be restricted to. The zero value is any text.
	Language = language.Language
	// LanguageError is what is wrong with a language: it cannot be read, or cannot be enforced.
	LanguageError = language.Error
	// Reply says what an answer in a chat has to be.
	Reply = reply.Reply
	// Tool is a tool as far as its calls are concerned.
	Tool = reply.Tool
)

// JSONSchema is the JSON texts that satisfy a schema, on one line (docs/structured.md).
func JSONSchema(schema []byte) Language { return language.JSONSchema(schema) }

// LooseJSONSchema is JSONSchema without the keywords that cannot be enforced; Constraint.Unenforced names them.
func LooseJSONSchema(schema []byte) Language { return language.LooseJSONSchema(schema) }

// JSONObject is any JSON object on one line.
func JSONObject() Language { return language.JSONObject() }

// Regex is the texts that match a regular expression as a whole.
func Regex(pattern string) Language { return language.Regex(pattern) }

// GBNF is the texts of a grammar in llama.cpp's notation.
func GBNF(text string) Language { return language.GBNF(text) }

// Choices is exactly these texts.
func Choices(list []string) Language { return language.Choices(list) }

// Constraint restricts answers to a language. It serves any number of requests; see Model.Constrain. A nil one allows
// everything.
type Constraint struct{ automaton *grammar.Automaton }

// Unenforced is what a loose schema, or that of a tool which is not strict, says and answers need not keep to, by its place:
// "#/properties/id/uniqueItems".
func (c *Constraint) Unenforced() []string {
	if c == nil {
		return nil
	}
	return c.automaton.Unenforced()
}

// Constrain compiles a language for the model's tokens, or finds it compiled: what was asked for lately is kept. A
// language that cannot be enforced is refused with a *LanguageError. Compiling ends when ctx does and no other call waits for the same, and after about two seconds' work.
func (m *Model) Constrain(ctx context.Context, l Language) (*Constraint, error) {
	if l.Any() {
		return nil, nil
	}
	c, err := m.languages()
	if err != nil {
		return nil, err
	}
	a, err := c.Compile(ctx, l)
	var busy *grammar.BusyError
	if errors.As(err, &busy) {
		return nil, &Error{Kind: ErrQueueFull, Reason: strings.TrimPrefix(err.Error(), "grammar: "), RetryAfter: time.Second}
	}
	if err != nil {
		return nil, err
	}
	return &Constraint{a}, nil
}

// ConstrainReply is Constrain for the answer to a rendered prompt, in the model's own style. What cannot be enforced is
// refused with a *LanguageError.
func (m *Model) ConstrainReply(ctx context.Context, prompt string, r Reply) (*Constraint, error) {
	if r.Free() {
		return nil, nil
	}
	c, err := m.languages()
	if err != nil {
		return nil, err
	}
	l, err := r.Language(m.Style(), prompt, c.Specials(), m.name)
	if err != nil {
		return nil, err
	}
	return m.Constrain(ctx, l.Of(r.Owner))
}

func (m *Model) newLanguages() (*language.Compiler, error) {
	encode := func(text string) ([]int32, error) { return m.tokenizer.Encode(text, tokenizer.Options{}) }
	c, err := language.NewCompiler(m.tokenizer, m.Vocab(), m.ends, encode)
	if err != nil {
		return nil, fmt.Errorf("ridge: the tokens of %s cannot follow a grammar: %w", m.name, err)
	}
	return c, nil
}

// constrain starts a request in the language.
func (c *Constraint) constrain(r *engine.Request) (err error) {
	if c == nil {
		return nil
	}
	r.Grammar, err = c.automaton.Start()
	return err
}

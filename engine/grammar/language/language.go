// Package language names sets of texts by their source, to be compiled when they are first needed, and compiles them for
// the tokens of one model.
package language

import (
	"encoding/json"
	"fmt"

	"github.com/ridge-llm/ridge/engine/grammar"
)

// Language is a set of texts that answers can be restricted to. The zero value is any text.
type Language struct {
	source string // tells the language from all others
	owner  string
	read   func(*grammar.Meter) (*grammar.Grammar, error)
}

// Error is what is wrong with a language: it cannot be read, or cannot be enforced.
type Error struct {
	Tool int // the index of the tool whose parameters it is about; -1: the content
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Tool < 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("the parameters of tool %d: %v", e.Tool, e.Err)
}

// Unwrap gives the error itself.
func (e *Error) Unwrap() error { return e.Err }

// Written is how JSON is laid out where nothing else is said: one space behind every , and :, as most models have learnt it.
var Written = grammar.Options{Spaced: true}

// JSONSchema is the JSON texts that satisfy a schema: those grammar.FromJSONSchema says, on one line.
func JSONSchema(schema []byte) Language {
	return language("json schema", string(schema), func(m *grammar.Meter) (*grammar.Grammar, error) {
		o := Written
		o.Meter = m
		return grammar.FromJSONSchema(schema, o)
	})
}

// LooseJSONSchema is JSONSchema without the keywords that cannot be enforced, which the grammar's Unenforced names.
func LooseJSONSchema(schema []byte) Language {
	return language("loose json schema", string(schema), func(m *grammar.Meter) (*grammar.Grammar, error) {
		o := Written
		o.Meter, o.Relax = m, true
		return grammar.FromJSONSchema(schema, o)
	})
}

// JSONObject is any JSON object on one line.
func JSONObject() Language { return JSONSchema([]byte(`{"type":"object"}`)) }

// Regex is the texts that match a regular expression as a whole.
func Regex(pattern string) Language {
	return language("regex", pattern, func(*grammar.Meter) (*grammar.Grammar, error) { return grammar.FromRegex(pattern) })
}

// GBNF is the texts of a grammar in llama.cpp's notation.
func GBNF(text string) Language {
	return language("gbnf", text, func(*grammar.Meter) (*grammar.Grammar, error) { return grammar.FromGBNF(text) })
}

// Choices is exactly these texts.
func Choices(list []string) Language {
	text, _ := json.Marshal(list) // strings always have a JSON form
	return language("choices", string(text), func(*grammar.Meter) (*grammar.Grammar, error) { return grammar.FromChoices(list) })
}

// New is the language of a grammar that read makes. source tells it from all other languages.
func New(source string, read func(*grammar.Meter) (*grammar.Grammar, error)) Language {
	return Language{source: source, read: read}
}

func language(kind, text string, read func(*grammar.Meter) (*grammar.Grammar, error)) Language {
	return New(kind+"\x00"+text, read)
}

// Of is the language as one owner's: what is compiled of it is not shared with others.
func (l Language) Of(owner string) Language {
	l.owner = owner
	return l
}

// Any reports whether the language is the zero one, any text.
func (l Language) Any() bool { return l.read == nil }

// Source tells the language from all others.
func (l Language) Source() string { return l.source }

// Grammar reads the language, which is not any text. m counts the work.
func (l Language) Grammar(m *grammar.Meter) (*grammar.Grammar, error) { return l.read(m) }

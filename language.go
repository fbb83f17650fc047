package ridge

import (
	"encoding/json"

	"github.com/ridge-llm/ridge/engine/grammar"
)

// Language is a set of texts to which answers can be held. The zero value is any text.
type Language struct {
	source string // tells the language from all others
	read   func(grammar.Options) (*grammar.Grammar, error)
}

// written is how JSON is laid out where nothing else is said: as most models have learnt it.
var written = grammar.Options{Spaced: true}

// JSONSchema is the JSON texts that satisfy a schema: those grammar.FromJSONSchema says, on one line.
func JSONSchema(schema []byte) Language {
	return language("json schema", string(schema), func(o grammar.Options) (*grammar.Grammar, error) { return grammar.FromJSONSchema(schema, o) })
}

// JSONObject is any JSON object on one line.
func JSONObject() Language { return JSONSchema([]byte(`{"type":"object"}`)) }

// Regex is the texts that match a regular expression as a whole.
func Regex(pattern string) Language {
	return language("regex", pattern, func(grammar.Options) (*grammar.Grammar, error) { return grammar.FromRegex(pattern) })
}

// GBNF is the texts of a grammar in llama.cpp's notation.
func GBNF(text string) Language {
	return language("gbnf", text, func(grammar.Options) (*grammar.Grammar, error) { return grammar.FromGBNF(text) })
}

// Choices is exactly these texts.
func Choices(list []string) Language {
	text, _ := json.Marshal(list) // strings always have a JSON form
	return language("choices", string(text), func(grammar.Options) (*grammar.Grammar, error) { return grammar.FromChoices(list) })
}

func language(kind, text string, read func(grammar.Options) (*grammar.Grammar, error)) Language {
	return Language{source: kind + "\x00" + text, read: read}
}

// Any reports whether the language is the zero one, any text.
func (l Language) Any() bool { return l.read == nil }

package grammar

import (
	"github.com/ridge-llm/ridge/engine/grammar/automaton"
	"github.com/ridge-llm/ridge/engine/grammar/gbnf"
	"github.com/ridge-llm/ridge/engine/grammar/regex"
	"github.com/ridge-llm/ridge/engine/grammar/schema"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

type (
	// Grammar is a language, as rules over code points. It does not change.
	Grammar = syntax.Grammar
	// Options says how JSON is written and what a schema leaves open.
	Options = schema.Options
	// Element is a property of an object that is written as an element of its own.
	Element = schema.Element

	// Meter counts the work of compiling a grammar and ends it when it is too much.
	Meter = syntax.Meter
	// BusyError refuses to compile: an owner has too many grammars waiting.
	BusyError = automaton.BusyError

	// Tokens is what a tokenizer says of its tokens.
	Tokens = automaton.Tokens
	// Vocabulary is the tokens of a model, prepared for masks.
	Vocabulary = automaton.Vocabulary
	// Automaton is a grammar compiled for a vocabulary, shared by all requests with that grammar.
	Automaton = automaton.Automaton
	// Matcher follows the answer of one request: Mask, Accept, Forced, Done.
	Matcher = automaton.Matcher
	// Cache keeps the automata of recent sources.
	Cache = automaton.Cache
)

// FromJSONSchema is the grammar of the JSON texts that satisfy a schema; see schema.Parse.
func FromJSONSchema(source []byte, o Options) (*Grammar, error) { return schema.Parse(source, o) }

// JSONObject is any JSON object.
func JSONObject(o Options) (*Grammar, error) { return schema.Object(o) }

// Elements is the properties of an object for models that write them as elements; see schema.Elements.
func Elements(source []byte, o Options, end string) ([]Element, error) {
	return schema.Elements(source, o, end)
}

// FromRegex is the grammar of the texts that match a pattern as a whole; see regex.Parse.
func FromRegex(pattern string) (*Grammar, error) { return regex.Parse(pattern) }

// FromGBNF is the language of the rule root of a grammar in llama.cpp's notation; see gbnf.Parse.
func FromGBNF(source string) (*Grammar, error) { return gbnf.Parse(source) }

// NewVocabulary makes a vocabulary, which keeps the parts of t: they must not be changed.
func NewVocabulary(t Tokens) (*Vocabulary, error) { return automaton.NewVocabulary(t) }

// Compile makes the automaton of a grammar for a vocabulary. The error says what is wrong with the grammar: no text
// satisfies it, a rule begins with itself, or it needs too many states.
func Compile(g *Grammar, v *Vocabulary) (*Automaton, error) { return automaton.Compile(g, v) }

// NewCache makes a cache that keeps up to limit bytes of automata, and one automaton whatever its size.
func NewCache(v *Vocabulary, limit int) *Cache { return automaton.NewCache(v, limit) }

package ridge

import (
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/grammar"
)

// Constraint keeps answers inside a language. It is compiled once and serves any number of requests; see Model.Constrain.
type Constraint struct{ automaton *grammar.Automaton }

// Constrain compiles a grammar (grammar.FromRegex, FromGBNF, FromChoices) for the model's tokens.
func (m *Model) Constrain(g *grammar.Grammar) (*Constraint, error) {
	v, err := m.vocabulary()
	if err != nil {
		return nil, err
	}
	a, err := grammar.Compile(g, v)
	if err != nil {
		return nil, &engine.InvalidError{Reason: err.Error()}
	}
	return &Constraint{a}, nil
}

// newVocabulary is the bytes of every token; special tokens have none, since no text of an answer is written with them.
func (m *Model) newVocabulary() (*grammar.Vocabulary, error) {
	tokens := make([][]byte, m.Vocab())
	for id := range tokens {
		if !m.tokenizer.IsSpecial(int32(id)) {
			tokens[id] = m.tokenizer.TokenBytes(int32(id))
		}
	}
	return grammar.NewVocabulary(tokens, m.ends)
}

// constrain gives a request its place in the language.
func (c *Constraint) constrain(r *engine.Request) (err error) {
	if c == nil {
		return nil
	}
	r.Grammar, err = c.automaton.Start()
	return err
}

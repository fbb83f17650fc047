package server

import (
	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/engine/grammar"
)

// constraint compiles the language that the answer must be in; nil when the request names none.
func (q *sampling) constraint(m *ridge.Model) (*ridge.Constraint, error) {
	var g *grammar.Grammar
	var err error
	field := ""
	if q.GuidedRegex != "" {
		field = "guided_regex"
		g, err = grammar.FromRegex(q.GuidedRegex)
	}
	for _, other := range []struct {
		name  string
		given bool
		read  func() (*grammar.Grammar, error)
	}{
		{"guided_grammar", q.GuidedGrammar != "", func() (*grammar.Grammar, error) { return grammar.FromGBNF(q.GuidedGrammar) }},
		{"guided_choice", len(q.GuidedChoice) > 0, func() (*grammar.Grammar, error) { return grammar.FromChoices(q.GuidedChoice) }},
	} {
		switch {
		case !other.given:
		case field != "":
			return nil, bad(other.name, "%s and %s are both given; an answer can be in one language only", field, other.name)
		default:
			field = other.name
			g, err = other.read()
		}
	}
	if field == "" {
		return nil, nil
	}
	if err != nil {
		return nil, bad(field, "%s", err)
	}
	return m.Constrain(g)
}

package schema

import (
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/regex"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// language is what a pattern or format allows.
type language struct {
	x         syntax.Expr
	automaton *dfa.DFA // over code points; nil until asked for
}

// language returns what a "pattern" or "format" allows. Patterns are read once, however often they are combined.
func (c *compiler) language(v *jsonValue) (*language, error) {
	name := v.key + v.text
	if l := c.languages[name]; l != nil {
		return l, nil
	}
	pattern, whole := v.text, false
	if v.key == "format" {
		if pattern, whole = formats[v.text], true; pattern == "" {
			return nil, errAt(v, "the format %.80q is not supported; there are %s", v.text, formatNames())
		}
	}
	x, err := regex.Expr(pattern, whole)
	if err != nil {
		return nil, errAt(v, "%w", err)
	}
	l := &language{x: x}
	c.languages[name] = l
	return l, nil
}

// automaton returns the automaton of a "pattern" or "format" over code points.
func (c *compiler) automaton(v *jsonValue) (*dfa.DFA, error) {
	l, err := c.language(v)
	if err != nil {
		return nil, err
	}
	if l.automaton != nil {
		return l.automaton, nil
	}
	if l.automaton = dfa.OverRunes(l.x, c.Meter); l.automaton == nil {
		return nil, errAt(v, "together with other patterns, bounds of the length or values of enum it takes more than %d states", dfa.MaxRuneStates)
	}
	return l.automaton, c.look(len(l.automaton.States))
}

// together is the strings that several patterns and formats and the bounds of the length allow.
func (c *compiler) together(s *stringFacts) (syntax.Expr, error) {
	all := dfa.OfLength(s.length.min, s.length.max)
	for _, v := range s.forms {
		d, err := c.automaton(v)
		if err != nil {
			return nil, err
		}
		if all != nil {
			all = dfa.Intersect(all, d, c.Meter)
		}
		if all == nil {
			return nil, errAt(v, "together with other patterns and the bounds of the length it takes more than %d states", dfa.MaxRuneStates)
		}
		if err := c.look(len(all.States)); err != nil {
			return nil, err
		}
	}
	return all.Graph(), nil
}

// admit reports whether a listed string satisfies the constraints.
func (c *compiler) admit(s *stringFacts, text string) (bool, error) {
	n := utf8.RuneCountInString(text)
	if n < s.length.min || s.length.max >= 0 && n > s.length.max {
		return false, nil
	}
	for _, v := range s.forms {
		d, err := c.automaton(v)
		if err != nil {
			return false, err
		}
		if err := c.look(1 + n); err != nil {
			return false, err
		}
		if !d.Matches(text) {
			return false, nil
		}
	}
	return true, nil
}

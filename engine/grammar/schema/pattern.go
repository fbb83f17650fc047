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

// language returns what a keyword allows, whose value or argument is text. Patterns are read once, however often they are combined.
func (c *compiler) language(at *jsonValue, key, text string) (*language, error) {
	name := key + "\x00" + text
	if key == otherThan {
		name += at.canonical()
	}
	if l := c.languages[name]; l != nil {
		return l, nil
	}
	l := &language{}
	switch key {
	case otherThan:
		var texts []string
		for _, v := range at.items {
			texts = append(texts, v.text)
		}
		l.x = syntax.OtherText(texts)
	case otherPattern:
		d, err := c.automaton(at, "pattern", text)
		if err != nil {
			return nil, err
		}
		l.automaton = dfa.Complement(d)
		l.x = l.automaton.Graph()
	default:
		pattern, whole := text, false
		if key == "format" {
			if pattern, whole = formats[text], true; pattern == "" {
				return nil, c.cannot(at, "the format %.80q is not supported; there are %s", text, formatNames())
			}
		}
		x, err := regex.Expr(pattern, whole)
		if err != nil {
			return nil, c.cannot(at, "%w", err)
		}
		l.x = x
	}
	c.languages[name] = l
	return l, nil
}

// automaton returns the automaton over code points of what a keyword allows.
func (c *compiler) automaton(at *jsonValue, key, text string) (*dfa.DFA, error) {
	l, err := c.language(at, key, text)
	if err != nil {
		return nil, err
	}
	if l.automaton != nil {
		return l.automaton, nil
	}
	if l.automaton = dfa.OverRunes(l.x, c.Meter); l.automaton == nil {
		return nil, c.cannot(at, "together with other patterns, bounds of the length or values of enum it takes more than %d states", dfa.MaxRuneStates)
	}
	return l.automaton, c.look(len(l.automaton.States))
}

// together is the strings that several patterns and formats and the bounds of the length allow.
func (c *compiler) together(s *stringFacts) (syntax.Expr, error) {
	all := dfa.OfLength(s.length.min, s.length.max)
	for _, f := range s.forms {
		d, err := c.automaton(f.value, f.key, f.value.text)
		if err != nil {
			return nil, err
		}
		if all != nil {
			all = dfa.Intersect(all, d, c.Meter)
		}
		if all == nil {
			return nil, c.cannot(f.value, "together with other patterns and the bounds of the length it takes more than %d states", dfa.MaxRuneStates)
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
	for _, f := range s.forms {
		d, err := c.automaton(f.value, f.key, f.value.text)
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

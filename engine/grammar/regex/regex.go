// Package regex reads regular expressions into grammars.
package regex

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Parse is the grammar of the texts that match a pattern from beginning to end. The dialect is what JSON Schema
// recommends of ECMA-262: classes, \d \w \s, \p{…}, groups, alternatives, quantifiers (lazy ones allow the same texts),
// ^ and $. Look-around, back-references and \b are refused.
func Parse(pattern string) (*syntax.Grammar, error) {
	x, err := Expr(pattern, true)
	if err != nil {
		return nil, err
	}
	return &syntax.Grammar{Rules: []syntax.Rule{{Name: "the pattern", Body: x}}}, nil
}

// Expr is the expression of the texts that match a pattern as a whole or, if not whole, of those that contain a match.
func Expr(pattern string, whole bool) (syntax.Expr, error) {
	x, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	if x, err = anchored(x, whole); err != nil {
		return nil, errorIn(pattern, err)
	}
	return x, nil
}

// parser reads a pattern by recursive descent.
type parser struct {
	rest  string
	depth int
}

func errorIn(pattern string, err error) error {
	const shown = 60
	if len(pattern) > shown {
		pattern = pattern[:shown] + "…"
	}
	return fmt.Errorf("grammar: pattern %q: %w", pattern, err)
}

// parse returns the expression of a pattern, with anchors in it.
func parse(pattern string) (syntax.Expr, error) {
	if err := syntax.CheckSource("pattern", pattern); err != nil {
		return nil, err
	}
	if !utf8.ValidString(pattern) {
		return nil, errorIn(pattern, errors.New("it is not valid UTF-8"))
	}
	p := parser{rest: pattern}
	x, err := p.alternatives()
	if err == nil && p.rest != "" {
		err = errors.New("a ) has no (")
	}
	if err != nil {
		return nil, errorIn(pattern, fmt.Errorf("at byte %d: %w", len(pattern)-len(p.rest), err))
	}
	return x, nil
}

func (p *parser) alternatives() (syntax.Expr, error) {
	if p.depth++; p.depth > syntax.MaxNesting {
		return nil, fmt.Errorf("groups are nested more than %d deep", syntax.MaxNesting)
	}
	defer func() { p.depth-- }()
	var options syntax.Alt
	for {
		x, err := p.sequence()
		if err != nil {
			return nil, err
		}
		options = append(options, x)
		if !p.take("|") {
			break
		}
	}
	if len(options) == 1 {
		return options[0], nil
	}
	return options, nil
}

func (p *parser) sequence() (syntax.Expr, error) {
	parts := syntax.Seq{}
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		x, err := p.atom()
		if err != nil {
			return nil, err
		}
		if x, err = p.quantified(x); err != nil {
			return nil, err
		}
		parts = append(parts, x)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return parts, nil
}

func (p *parser) take(s string) bool {
	if len(p.rest) < len(s) || p.rest[:len(s)] != s {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

// rune takes the next code point; there must be one.
func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *parser) atom() (syntax.Expr, error) {
	switch p.rest[0] {
	case '^', '$':
		return syntax.Anchor(p.rune()), nil
	case '(':
		return p.group()
	case '[':
		p.rest = p.rest[1:]
		return p.class()
	case '\\':
		p.rest = p.rest[1:]
		return p.escape(false)
	case '.':
		p.rest = p.rest[1:]
		return syntax.ClassOf("\n\r\u2028\u2029").Complement(), nil
	case '*', '+', '?':
		return nil, fmt.Errorf("a %c has nothing before it to repeat", p.rest[0])
	}
	r := p.rune()
	return syntax.Class{{Lo: r, Hi: r}}, nil
}

func (p *parser) group() (syntax.Expr, error) {
	p.rest = p.rest[1:]
	switch {
	case p.take("?="), p.take("?!"), p.take("?<="), p.take("?<!"):
		return nil, errors.New("look-around is not supported")
	case p.take("?:"):
	case p.take("?<"):
		for p.rest != "" && !p.take(">") {
			p.rune()
		}
	case p.take("?"):
		return nil, errors.New("flags and other groups with (? are not supported")
	}
	x, err := p.alternatives()
	if err == nil && !p.take(")") {
		err = errors.New("a ( has no )")
	}
	return x, err
}

func (p *parser) quantified(x syntax.Expr) (syntax.Expr, error) {
	low, high := 1, 1
	switch {
	case p.take("*"):
		low, high = 0, -1
	case p.take("+"):
		high = -1
	case p.take("?"):
		low = 0
	default:
		var ok bool
		var err error
		if low, high, ok, err = p.braces(); !ok || err != nil {
			return x, err
		}
	}
	p.take("?") // lazy: what it prefers makes no difference to what it allows
	if _, ok := x.(syntax.Anchor); ok {
		return nil, errors.New("an anchor is repeated")
	}
	if p.rest != "" && (p.rest[0] == '*' || p.rest[0] == '+' || p.rest[0] == '?') {
		return nil, fmt.Errorf("a %c follows another quantifier", p.rest[0])
	}
	return syntax.Repeat{X: x, Min: low, Max: high}, nil
}

// braces takes {m}, {m,} or {m,n}. Anything else that begins with a brace is just characters.
func (p *parser) braces() (low, high int, ok bool, err error) {
	start := p.rest
	if !p.take("{") {
		return 0, 0, false, nil
	}
	low, ok = p.number()
	high = low
	if ok && p.take(",") {
		high = -1
		if n, some := p.number(); some {
			high = n
		}
	}
	if !ok || !p.take("}") {
		p.rest = start
		return 0, 0, false, nil
	}
	if high >= 0 && high < low {
		return 0, 0, false, fmt.Errorf("{%d,%d} has its bounds the wrong way round", low, high)
	}
	if low > syntax.MaxTimes || high > syntax.MaxTimes {
		return 0, 0, false, fmt.Errorf("a repetition of more than %d times", syntax.MaxTimes)
	}
	return low, high, true, nil
}

// number takes decimal digits. Numbers past the bound stay past it.
func (p *parser) number() (n int, ok bool) {
	for p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' {
		n = min(10*n+int(p.rest[0]-'0'), syntax.MaxTimes+1)
		p.rest = p.rest[1:]
		ok = true
	}
	return n, ok
}

package grammar

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// FromRegex is the grammar of the texts that match a pattern from beginning to end. The dialect is what JSON Schema
// recommends of ECMA-262: classes, \d \w \s, \p{…}, groups, alternatives, quantifiers (lazy ones allow the same texts),
// ^ and $. Look-around, back-references and \b are refused.
func FromRegex(pattern string) (*Grammar, error) {
	x, err := parseRegex(pattern)
	if err != nil {
		return nil, err
	}
	if x, err = anchored(x, true); err != nil {
		return nil, regexError(pattern, err)
	}
	return &Grammar{rules: []rule{{name: "the pattern", body: x}}}, nil
}

// anchor is ^ or $. It exists only between parseRegex and anchored.
type anchor byte

func (anchor) isExpr() {}

// maxTimes bounds what a quantifier may say.
const maxTimes = 1 << 30

// regexParser reads a pattern by recursive descent.
type regexParser struct {
	rest  string
	depth int
}

func regexError(pattern string, err error) error {
	const shown = 60
	if len(pattern) > shown {
		pattern = pattern[:shown] + "…"
	}
	return fmt.Errorf("grammar: pattern %q: %w", pattern, err)
}

// parseRegex returns the expression of a pattern, with anchors in it.
func parseRegex(pattern string) (expr, error) {
	if err := checkSource("pattern", pattern); err != nil {
		return nil, err
	}
	if !utf8.ValidString(pattern) {
		return nil, regexError(pattern, errors.New("it is not valid UTF-8"))
	}
	p := regexParser{rest: pattern}
	x, err := p.alternatives()
	if err == nil && p.rest != "" {
		err = errors.New("a ) has no (")
	}
	if err != nil {
		return nil, regexError(pattern, fmt.Errorf("at byte %d: %w", len(pattern)-len(p.rest), err))
	}
	return x, nil
}

func (p *regexParser) alternatives() (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("groups are nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	var options alt
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

func (p *regexParser) sequence() (expr, error) {
	parts := seq{}
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

func (p *regexParser) take(s string) bool {
	if len(p.rest) < len(s) || p.rest[:len(s)] != s {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

// rune takes the next code point; there must be one.
func (p *regexParser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *regexParser) atom() (expr, error) {
	switch p.rest[0] {
	case '^', '$':
		return anchor(p.rune()), nil
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
		return classOf("\n\r\u2028\u2029").not(), nil
	case '*', '+', '?':
		return nil, fmt.Errorf("a %c has nothing before it to repeat", p.rest[0])
	}
	r := p.rune()
	return class{{r, r}}, nil
}

func (p *regexParser) group() (expr, error) {
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

func (p *regexParser) quantified(x expr) (expr, error) {
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
	if _, ok := x.(anchor); ok {
		return nil, errors.New("an anchor is repeated")
	}
	if p.rest != "" && (p.rest[0] == '*' || p.rest[0] == '+' || p.rest[0] == '?') {
		return nil, fmt.Errorf("a %c follows another quantifier", p.rest[0])
	}
	return repeat{x, low, high}, nil
}

// braces takes {m}, {m,} or {m,n}. Anything else that begins with a brace is just characters.
func (p *regexParser) braces() (low, high int, ok bool, err error) {
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
	if low > maxTimes || high > maxTimes {
		return 0, 0, false, fmt.Errorf("a repetition of more than %d times", maxTimes)
	}
	return low, high, true, nil
}

// number takes decimal digits. Numbers past the bound stay past it.
func (p *regexParser) number() (n int, ok bool) {
	for p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' {
		n = min(10*n+int(p.rest[0]-'0'), maxTimes+1)
		p.rest = p.rest[1:]
		ok = true
	}
	return n, ok
}

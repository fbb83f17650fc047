package gbnf

import (
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// literal takes the characters up to the closing quote.
func (p *parser) literal() (syntax.Expr, error) {
	var s []rune
	for !p.take(`"`) {
		r, err := p.char(`"`)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return syntax.Text(s), nil
}

// class takes what stands behind a [, with the ].
func (p *parser) class() (syntax.Expr, error) {
	negated := p.take("^")
	var ranges []syntax.RuneRange
	for !p.take("]") {
		lo, err := p.char("]")
		if err != nil {
			return nil, err
		}
		hi := lo
		if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
			p.rest = p.rest[1:]
			if hi, err = p.char("]"); err != nil {
				return nil, err
			}
		}
		if lo > hi {
			return nil, fmt.Errorf("the range %c-%c runs backwards", lo, hi)
		}
		ranges = append(ranges, syntax.RuneRange{Lo: lo, Hi: hi})
	}
	c := syntax.NewClass(ranges).Intersect(syntax.AnyRune)
	if negated {
		c = c.Complement()
	}
	return c, nil
}

// char takes a character or an escape within what ends with the given bracket or quote.
func (p *parser) char(closing string) (rune, error) {
	if p.rest == "" {
		return 0, fmt.Errorf("a %s is missing", closing)
	}
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	if r != '\\' {
		return r, nil
	}
	if p.rest == "" {
		return 0, errors.New(`a \ has nothing after it`)
	}
	e := p.rest[0]
	p.rest = p.rest[1:]
	switch e {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^', '/', '.':
		return rune(e), nil
	}
	return 0, fmt.Errorf(`\%c is not a known escape`, e)
}

// hex takes exactly n hexadecimal digits, which name a code point.
func (p *parser) hex(n int) (rune, error) {
	if len(p.rest) < n {
		return 0, fmt.Errorf("an escape wants %d hexadecimal digits", n)
	}
	v, err := strconv.ParseUint(p.rest[:n], 16, 32)
	if err != nil || v > unicode.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, fmt.Errorf("%q are not the %d hexadecimal digits of a code point", p.rest[:n], n)
	}
	p.rest = p.rest[n:]
	return rune(v), nil
}

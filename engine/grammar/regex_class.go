package grammar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The classes behind a backslash, as ECMA-262 has them.
var (
	digits = class{{'0', '9'}}
	words  = newClass([]runeRange{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}})
	spaces = newClass(append(tableClass(unicode.Zs), classOf("\t\n\v\f\r\u2028\u2029\uFEFF")...))
)

// class takes what stands between [ and ].
func (p *regexParser) class() (expr, error) {
	negated := p.take("^")
	var ranges []runeRange
	for !p.take("]") {
		c, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if len(p.rest) < 2 || p.rest[0] != '-' || p.rest[1] == ']' {
			ranges = append(ranges, c...)
			continue
		}
		p.rest = p.rest[1:]
		d, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if c.size() != 1 || d.size() != 1 {
			ranges = append(append(append(ranges, c...), d...), runeRange{'-', '-'}) // [\w-.]
			continue
		}
		if c[0].lo > d[0].lo {
			return nil, fmt.Errorf("the range %c-%c runs backwards", c[0].lo, d[0].lo)
		}
		ranges = append(ranges, runeRange{c[0].lo, d[0].lo})
	}
	c := newClass(ranges).both(anyRune)
	if negated {
		c = c.not()
	}
	return c, nil
}

func (p *regexParser) classItem() (class, error) {
	if p.rest == "" {
		return nil, errors.New("a [ has no ]")
	}
	if p.take(`\`) {
		x, err := p.escape(true)
		if err != nil {
			return nil, err
		}
		return x.(class), nil
	}
	r := p.rune()
	return class{{r, r}}, nil
}

// escape takes what stands behind a backslash; the result is a class.
func (p *regexParser) escape(inClass bool) (expr, error) {
	if p.rest == "" {
		return nil, errors.New(`a \ has nothing after it`)
	}
	one := func(r rune) (expr, error) { return class{{r, r}}, nil }
	switch r := p.rune(); {
	case r == 'd':
		return digits, nil
	case r == 'D':
		return digits.not(), nil
	case r == 'w':
		return words, nil
	case r == 'W':
		return words.not(), nil
	case r == 's':
		return spaces, nil
	case r == 'S':
		return spaces.not(), nil
	case r == 'p' || r == 'P':
		c, err := p.property()
		if err == nil && r == 'P' {
			c = c.not()
		}
		return c, err
	case strings.ContainsRune("fnrtv", r):
		return one(rune("\f\n\r\t\v"[strings.IndexRune("fnrtv", r)]))
	case r == '0' && (p.rest == "" || p.rest[0] < '0' || p.rest[0] > '9'):
		return one(0)
	case r == 'b' && inClass:
		return one('\b')
	case r == 'c' && p.rest != "" && unicode.IsLetter(rune(p.rest[0])) && p.rest[0] < 0x80:
		return one(p.rune() % 32)
	case r == 'x':
		return p.hex(2)
	case r == 'u':
		return p.unicodeEscape()
	case r >= '1' && r <= '9' || r == 'k':
		return nil, errors.New("back-references are not supported")
	case r == 'b' || r == 'B':
		return nil, fmt.Errorf(`the word boundary \%c is not supported`, r)
	case r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)):
		return nil, fmt.Errorf(`\%c is not a known escape`, r)
	default:
		return one(r)
	}
}

// hex takes exactly n hexadecimal digits.
func (p *regexParser) hex(n int) (expr, error) {
	if len(p.rest) >= n {
		if v, err := strconv.ParseUint(p.rest[:n], 16, 32); err == nil {
			p.rest = p.rest[n:]
			return class{{rune(v), rune(v)}}, nil
		}
	}
	return nil, fmt.Errorf("an escape wants %d hexadecimal digits", n)
}

// unicodeEscape takes the HHHH or {H…} of \uHHHH and \u{H…}, and a second \uHHHH if the first is half of a pair.
func (p *regexParser) unicodeEscape() (expr, error) {
	if p.take("{") {
		digits, rest, ok := strings.Cut(p.rest, "}")
		v, err := strconv.ParseUint(digits, 16, 32)
		if !ok || err != nil || v > unicode.MaxRune {
			return nil, errors.New(`\u{…} does not hold a code point`)
		}
		p.rest = rest
		return class{{rune(v), rune(v)}}.both(anyRune), nil
	}
	x, err := p.hex(4)
	if err != nil || !utf16.IsSurrogate(x.(class)[0].lo) {
		return x, err
	}
	if p.take(`\u`) {
		y, err := p.hex(4)
		if err != nil {
			return nil, err
		}
		if r := utf16.DecodeRune(x.(class)[0].lo, y.(class)[0].lo); r != unicode.ReplacementChar {
			return class{{r, r}}, nil
		}
	}
	return nil, errors.New(`\u names half of a surrogate pair`)
}

// property takes the {…} of \p{…}: a general category or a script, with or without what kind of name it is.
func (p *regexParser) property() (class, error) {
	name, rest, ok := strings.Cut(p.rest, "}")
	if !ok || !strings.HasPrefix(name, "{") {
		return nil, errors.New(`\p wants a name in braces, as in \p{L}`)
	}
	p.rest = rest
	name = name[1:]
	if _, value, ok := strings.Cut(name, "="); ok {
		name = value
	}
	if long, ok := unicode.CategoryAliases[name]; ok {
		name = long
	}
	if t, ok := unicode.Categories[name]; ok {
		return tableClass(t), nil
	}
	if t, ok := unicode.Scripts[name]; ok {
		return tableClass(t), nil
	}
	if t, ok := unicode.Properties[name]; ok {
		return tableClass(t), nil
	}
	switch name {
	case "Any":
		return anyRune, nil
	case "ASCII":
		return class{{0, 0x7F}}, nil
	case "Alphabetic":
		return newClass(append(tableClass(unicode.L), append(tableClass(unicode.Nl), tableClass(unicode.Other_Alphabetic)...)...)), nil
	}
	return nil, fmt.Errorf(`\p{%.40s} is not a known category or script`, name)
}

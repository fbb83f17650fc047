package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// The classes behind a backslash, as ECMA-262 has them.
var (
	words  = syntax.NewClass([]syntax.RuneRange{{Lo: '0', Hi: '9'}, {Lo: 'A', Hi: 'Z'}, {Lo: '_', Hi: '_'}, {Lo: 'a', Hi: 'z'}})
	spaces = syntax.NewClass(append(syntax.TableClass(unicode.Zs), syntax.ClassOf("\t\n\v\f\r\u2028\u2029\uFEFF")...))
)

// class takes what stands between [ and ].
func (p *parser) class() (syntax.Expr, error) {
	negated := p.take("^")
	var ranges []syntax.RuneRange
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
		if c.Size() != 1 || d.Size() != 1 {
			ranges = append(append(append(ranges, c...), d...), syntax.RuneRange{Lo: '-', Hi: '-'}) // [\w-.]
			continue
		}
		if c[0].Lo > d[0].Lo {
			return nil, fmt.Errorf("the range %c-%c runs backwards", c[0].Lo, d[0].Lo)
		}
		ranges = append(ranges, syntax.RuneRange{Lo: c[0].Lo, Hi: d[0].Lo})
	}
	c := syntax.NewClass(ranges).Intersect(syntax.AnyRune)
	if negated {
		c = c.Complement()
	}
	return c, nil
}

func (p *parser) classItem() (syntax.Class, error) {
	if p.rest == "" {
		return nil, errors.New("a [ has no ]")
	}
	if p.take(`\`) {
		x, err := p.escape(true)
		if err != nil {
			return nil, err
		}
		return x.(syntax.Class), nil
	}
	r := p.rune()
	return syntax.Class{{Lo: r, Hi: r}}, nil
}

// escape takes what stands behind a backslash; the result is a class.
func (p *parser) escape(inClass bool) (syntax.Expr, error) {
	if p.rest == "" {
		return nil, errors.New(`a \ has nothing after it`)
	}
	one := func(r rune) (syntax.Expr, error) { return syntax.Class{{Lo: r, Hi: r}}, nil }
	switch r := p.rune(); {
	case r == 'd':
		return syntax.Digits, nil
	case r == 'D':
		return syntax.Digits.Complement(), nil
	case r == 'w':
		return words, nil
	case r == 'W':
		return words.Complement(), nil
	case r == 's':
		return spaces, nil
	case r == 'S':
		return spaces.Complement(), nil
	case r == 'p' || r == 'P':
		c, err := p.property()
		if err == nil && r == 'P' {
			c = c.Complement()
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
func (p *parser) hex(n int) (syntax.Expr, error) {
	if len(p.rest) >= n {
		if v, err := strconv.ParseUint(p.rest[:n], 16, 32); err == nil {
			p.rest = p.rest[n:]
			return syntax.Class{{Lo: rune(v), Hi: rune(v)}}, nil
		}
	}
	return nil, fmt.Errorf("an escape wants %d hexadecimal digits", n)
}

// unicodeEscape takes the HHHH or {H…} of \uHHHH and \u{H…}, and a second \uHHHH if the first is half of a pair.
func (p *parser) unicodeEscape() (syntax.Expr, error) {
	if p.take("{") {
		digits, rest, ok := strings.Cut(p.rest, "}")
		v, err := strconv.ParseUint(digits, 16, 32)
		if !ok || err != nil || v > unicode.MaxRune {
			return nil, errors.New(`\u{…} does not hold a code point`)
		}
		p.rest = rest
		return syntax.Class{{Lo: rune(v), Hi: rune(v)}}.Intersect(syntax.AnyRune), nil
	}
	x, err := p.hex(4)
	if err != nil || !utf16.IsSurrogate(x.(syntax.Class)[0].Lo) {
		return x, err
	}
	if p.take(`\u`) {
		y, err := p.hex(4)
		if err != nil {
			return nil, err
		}
		if r := utf16.DecodeRune(x.(syntax.Class)[0].Lo, y.(syntax.Class)[0].Lo); r != unicode.ReplacementChar {
			return syntax.Class{{Lo: r, Hi: r}}, nil
		}
	}
	return nil, errors.New(`\u names half of a surrogate pair`)
}

// property takes the {…} of \p{…}: a general category or a script, with or without what kind of name it is.
func (p *parser) property() (syntax.Class, error) {
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
		return syntax.TableClass(t), nil
	}
	if t, ok := unicode.Scripts[name]; ok {
		return syntax.TableClass(t), nil
	}
	if t, ok := unicode.Properties[name]; ok {
		return syntax.TableClass(t), nil
	}
	switch name {
	case "Any":
		return syntax.AnyRune, nil
	case "ASCII":
		return syntax.Class{{Lo: 0, Hi: 0x7F}}, nil
	case "Alphabetic":
		return syntax.NewClass(append(syntax.TableClass(unicode.L), append(syntax.TableClass(unicode.Nl), syntax.TableClass(unicode.Other_Alphabetic)...)...)), nil
	}
	return nil, fmt.Errorf(`\p{%.40s} is not a known category or script`, name)
}

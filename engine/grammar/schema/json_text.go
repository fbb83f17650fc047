package schema

import (
	"strings"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// The texts of JSON (RFC 8259) that need no rules.
var (
	hexDigit = syntax.NewClass([]syntax.RuneRange{{Lo: '0', Hi: '9'}, {Lo: 'A', Hi: 'F'}, {Lo: 'a', Hi: 'f'}})

	// jsonChar is one code point of a string in any way it can be written. Halves of surrogate pairs do not stand alone.
	jsonChar = syntax.Alt{
		syntax.UnescapedInJSON,
		syntax.Seq{syntax.Text(`\`), syntax.ClassOf(`"\/bfnrt`)},
		syntax.Seq{syntax.Text(`\u`), syntax.Alt{
			syntax.Seq{syntax.NewClass([]syntax.RuneRange{{Lo: '0', Hi: '9'}, {Lo: 'A', Hi: 'C'}, {Lo: 'E', Hi: 'F'}, {Lo: 'a', Hi: 'c'}, {Lo: 'e', Hi: 'f'}}), syntax.Repeat{X: hexDigit, Min: 3, Max: 3}},
			syntax.Seq{syntax.ClassOf("dD"), syntax.Class{{Lo: '0', Hi: '7'}}, syntax.Repeat{X: hexDigit, Min: 2, Max: 2}},
			syntax.Seq{
				syntax.ClassOf("dD"), syntax.NewClass([]syntax.RuneRange{{Lo: '8', Hi: '9'}, {Lo: 'A', Hi: 'B'}, {Lo: 'a', Hi: 'b'}}), syntax.Repeat{X: hexDigit, Min: 2, Max: 2}, syntax.Text(`\u`),
				syntax.ClassOf("dD"), syntax.NewClass([]syntax.RuneRange{{Lo: 'C', Hi: 'F'}, {Lo: 'c', Hi: 'f'}}), syntax.Repeat{X: hexDigit, Min: 2, Max: 2},
			},
		}},
	}

	nonZero = syntax.Class{{Lo: '1', Hi: '9'}}

	// jsonAnyNumber is a number with an exponent of at most two digits: few programs read larger ones.
	jsonAnyNumber = syntax.Seq{
		syntax.Optional(syntax.Text("-")), syntax.Alt{syntax.Text("0"), syntax.Seq{nonZero, syntax.Star(syntax.Digits)}},
		syntax.Optional(syntax.Seq{syntax.Text("."), syntax.Repeat{X: syntax.Digits, Min: 1, Max: -1}}),
		syntax.Optional(syntax.Seq{syntax.ClassOf("eE"), syntax.Optional(syntax.ClassOf("+-")), syntax.Repeat{X: syntax.Digits, Min: 1, Max: 2}}),
	}
)

// quote is a string as JSON, with no more escapes than needed.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' {
			b.WriteString(syntax.EscapeJSON(r))
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// literal is a value as JSON text.
func (c *compiler) literal(v *jsonValue) syntax.Expr {
	switch v.kind {
	case jsonNull:
		return syntax.Text("null")
	case jsonString:
		return syntax.Text(quote(v.text))
	case jsonArray, jsonObject:
		brackets := "[]"
		if v.kind == jsonObject {
			brackets = "{}"
		}
		if len(v.items) == 0 {
			return syntax.Text(brackets)
		}
		x := syntax.Seq{syntax.Text(brackets[:1])}
		for i, item := range v.items {
			x = append(x, c.comma(i))
			if v.kind == jsonObject {
				x = append(x, syntax.Text(quote(v.keys[i])+":"), c.gap)
			}
			x = append(x, c.literal(item))
		}
		return append(x, c.ws, syntax.Text(brackets[1:]))
	}
	return syntax.Text(v.text)
}

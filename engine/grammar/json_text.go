package grammar

import "strings"

// The texts of JSON (RFC 8259) that need no rules.
var (
	hexDigit = newClass([]runeRange{{'0', '9'}, {'A', 'F'}, {'a', 'f'}})

	// jsonChar is one code point of a string in any way it can be written. Halves of surrogate pairs do not stand alone.
	jsonChar = alt{
		unescaped,
		seq{text(`\`), classOf(`"\/bfnrt`)},
		seq{text(`\u`), alt{
			seq{newClass([]runeRange{{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), repeat{hexDigit, 3, 3}},
			seq{classOf("dD"), class{{'0', '7'}}, repeat{hexDigit, 2, 2}},
			seq{
				classOf("dD"), newClass([]runeRange{{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), repeat{hexDigit, 2, 2}, text(`\u`),
				classOf("dD"), newClass([]runeRange{{'C', 'F'}, {'c', 'f'}}), repeat{hexDigit, 2, 2},
			},
		}},
	}

	nonZero = class{{'1', '9'}}

	// jsonInteger is an integer; -0 is left out.
	jsonInteger = alt{text("0"), seq{optional(text("-")), nonZero, star(digits)}}

	// jsonAnyNumber is a number with an exponent of at most two digits: what is larger, few programs read.
	jsonAnyNumber = seq{
		optional(text("-")), alt{text("0"), seq{nonZero, star(digits)}},
		optional(seq{text("."), repeat{digits, 1, -1}}),
		optional(seq{classOf("eE"), optional(classOf("+-")), repeat{digits, 1, 2}}),
	}
)

// quote is a string as JSON, with no more escapes than needed.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' {
			b.WriteString(escape(r))
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// literal is a value as JSON text.
func (c *schemaCompiler) literal(v *jsonValue) expr {
	switch v.kind {
	case jsonNull:
		return text("null")
	case jsonString:
		return text(quote(v.text))
	case jsonArray, jsonObject:
		brackets := "[]"
		if v.kind == jsonObject {
			brackets = "{}"
		}
		if len(v.items) == 0 {
			return text(brackets)
		}
		x := seq{text(brackets[:1])}
		for i, item := range v.items {
			x = append(x, c.comma(i))
			if v.kind == jsonObject {
				x = append(x, text(quote(v.keys[i])+":"), c.gap)
			}
			x = append(x, c.literal(item))
		}
		return append(x, c.ws, text(brackets[1:]))
	}
	return text(v.text)
}

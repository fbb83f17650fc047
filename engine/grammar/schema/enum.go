package schema

import (
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// enum is the language of the listed values that everything else allows.
func (c *compiler) enum(f *facts) (syntax.Expr, error) {
	var options syntax.Alt
	seen := map[string]bool{}
	for _, v := range f.enum {
		name := v.canonical()
		if seen[name] {
			continue
		}
		seen[name] = true
		ok, err := c.admits(f, v)
		if err != nil {
			return nil, err
		}
		if ok {
			options = append(options, c.literal(v))
		}
	}
	return options, nil
}

// canonical is a text that equal values share. Numbers are equal by value, objects whatever the order of their keys.
func (v *jsonValue) canonical() string {
	switch v.kind {
	case jsonNumber:
		if d, ok := parseDecimal(v.text); ok {
			sign := ""
			if d.negative {
				sign = "-"
			}
			return sign + d.whole + "." + d.fraction
		}
	case jsonString:
		return quote(v.text)
	case jsonNull:
		return "null"
	case jsonArray, jsonObject:
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			parts[i] = item.canonical()
			if v.kind == jsonObject {
				parts[i] = quote(v.keys[i]) + ":" + parts[i]
			}
		}
		if v.kind == jsonArray {
			return "[" + strings.Join(parts, ",") + "]"
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return v.text
}

// admits reports whether a listed value satisfies what else is said.
func (c *compiler) admits(f *facts, v *jsonValue) (bool, error) {
	for _, p := range f.parts {
		if ok, err := c.valid(p.jsonValue, v); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

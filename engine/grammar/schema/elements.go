package schema

import (
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Element is a property of an object that is written as an element of its own, as some models write the arguments of calls:
// texts stand there without quotes.
type Element struct {
	Name     string
	Required bool
	Value    *syntax.Grammar
}

// Elements are the properties of the objects that satisfy a schema, in their order. A property that is a text by its own type or
// enum is written as it is, and does not contain end, with which its element ends ("": that cannot be in a text); others are
// JSON. Beside what Parse refuses, so are anyOf, oneOf, enum and numbers of properties for the object as a whole.
func Elements(schema []byte, o Options, end string) ([]Element, error) {
	o.Object = true
	var list []Element
	notes, err := compile(schema, o, func(c *compiler, parts []part) (err error) {
		if list, err = c.elements(parts, end); err != nil {
			return err
		}
		for i := range list {
			list[i].Value.Rules = append(slices.Clip(c.rules), syntax.Rule{Name: "root", Body: list[i].Value.Rules[0].Body})
			list[i].Value.Root = len(c.rules)
		}
		return nil
	})
	if len(list) > 0 { // the first tells for all
		list[0].Value.Unenforced = notes
	}
	return list, err
}

// elements makes the list. The values are single rules as yet, which may call those of c.
func (c *compiler) elements(parts []part, end string) (list []Element, err error) {
	if parts, err = c.flatten(parts); err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, key := range []string{"anyOf", "oneOf", "if", "enum", "const", "minProperties", "maxProperties", "patternProperties", "propertyNames"} {
			if v := p.get(key); v != nil {
				return nil, c.cannot(v, "%s cannot be enforced for arguments that are written as elements", key)
			}
		}
	}
	f, err := c.facts(parts)
	if err != nil {
		return nil, err
	}
	properties, err := c.properties(f)
	if err != nil {
		return nil, err
	}
	own := c.root.get("properties")
	for _, p := range properties {
		var value syntax.Expr
		if own != nil && isText(own.get(p.name)) {
			value, err = c.bare(p.parts, end)
		} else {
			value, err = c.schema(p.parts)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Element{p.name, p.required, syntax.Single(value)})
	}
	return list, nil
}

// isText reports whether a schema is, without a look at what it refers to, of texts and nothing else. The parsers of calls
// decide alike.
func isText(v *jsonValue) bool {
	if v == nil {
		return false
	}
	if kind := v.get("type"); kind != nil {
		return kind.text == "string"
	}
	listed := v.get("enum")
	return listed != nil && len(listed.items) > 0 && !slices.ContainsFunc(listed.items, func(x *jsonValue) bool { return x.kind != jsonString })
}

// bare is the texts that satisfy the parts, without quotes.
func (c *compiler) bare(parts []part, end string) (syntax.Expr, error) {
	parts, err := c.flatten(parts)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, key := range []string{"anyOf", "oneOf", "if"} {
			if v := p.get(key); v != nil {
				return nil, c.cannot(v, "%s cannot be enforced for a text that is written without quotes", key)
			}
		}
	}
	f, err := c.facts(parts)
	if err != nil {
		return nil, err
	}
	s := &f.strings
	switch {
	case f.enum != nil:
		return c.bareEnum(f, end)
	case s.length.impossible():
		return syntax.Alt{}, nil
	case len(s.forms) == 0 && s.length == (sizes{0, -1}):
		return withoutEnd(end), nil
	}
	x, err := c.together(s)
	if err != nil || end == "" {
		return x, err
	}
	// together has found room for the automaton, and the one of end is small.
	all, stop := dfa.OverRunes(x, c.Meter), dfa.OverRunes(withoutEnd(end), c.Meter)
	if all != nil && stop != nil {
		all = dfa.Intersect(all, stop, c.Meter)
	}
	if all == nil {
		return nil, errAt(parts[0].jsonValue, "without %q in its texts it takes more than %d states", end, dfa.MaxRuneStates)
	}
	return all.Graph(), nil
}

// bareEnum is the listed texts that everything else allows.
func (c *compiler) bareEnum(f *facts, end string) (syntax.Expr, error) {
	var options syntax.Alt
	for _, v := range f.enum {
		ok, err := c.admits(f, v)
		switch {
		case err != nil:
			return nil, err
		case !ok || v.kind != jsonString:
		case end != "" && strings.Contains(v.text, end):
			return nil, c.cannot(v, "a text with %q in it cannot be written as an element", end)
		default:
			options = append(options, syntax.Text(v.text))
		}
	}
	return options, nil
}

// withoutEnd is any text in which end does not come; "": any text.
func withoutEnd(end string) syntax.Expr {
	if end == "" {
		return syntax.Star(syntax.AnyRune)
	}
	return syntax.Without([]string{end}, nil)
}

package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// Element is a property of an object that is written as an element of its own, as some models write the arguments of calls:
// texts stand there without quotes.
type Element struct {
	Name     string
	Required bool
	Value    *Grammar
}

// Elements are the properties of the objects that satisfy a schema, in their order. A property that is a text by its own type or
// enum is written as it is, and does not contain end, with which its element ends ("": that cannot be in a text); others are
// JSON. Beside what FromJSONSchema refuses, so are anyOf, oneOf, enum and numbers of properties for the object as a whole.
func Elements(schema []byte, o Options, end string) ([]Element, error) {
	o.Object = true
	c, parts, err := newSchemaCompiler(schema, o)
	if err != nil {
		return nil, err
	}
	list, err := c.elements(parts, end)
	if err != nil {
		return nil, fmt.Errorf("grammar: schema at %w", err)
	}
	for i := range list {
		list[i].Value.rules = append(slices.Clip(c.rules), rule{name: "root", body: list[i].Value.rules[0].body})
		list[i].Value.root = len(c.rules)
	}
	return list, nil
}

// elements makes the list. The values are single rules as yet, which may call those of c.
func (c *schemaCompiler) elements(parts []part, end string) (list []Element, err error) {
	if parts, err = c.flatten(parts); err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, key := range []string{"anyOf", "oneOf", "enum", "const", "minProperties", "maxProperties"} {
			if v := p.get(key); v != nil {
				return nil, errAt(v, "%s cannot be enforced for arguments that are written as elements", key)
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
		var value expr
		if own != nil && isText(own.get(p.name)) {
			value, err = c.bare(p.parts, end)
		} else {
			value, err = c.schema(p.parts)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Element{p.name, p.required, single(value)})
	}
	return list, nil
}

// isText reports whether a schema is, without a look at what it refers to, of texts and nothing else. Those who read calls
// go by the same.
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
func (c *schemaCompiler) bare(parts []part, end string) (expr, error) {
	parts, err := c.flatten(parts)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, key := range []string{"anyOf", "oneOf"} {
			if v := p.get(key); v != nil {
				return nil, errAt(v, "%s cannot be enforced for a text that is written without quotes", key)
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
		return alt{}, nil
	case len(s.forms) == 0 && s.length == (sizes{0, -1}):
		return without(end), nil
	}
	x, err := c.together(s)
	if err != nil || end == "" {
		return x, err
	}
	// together has found room for the automaton, and the one of end is small.
	all, stop := runeDFA(x), runeDFA(without(end))
	if all != nil && stop != nil {
		all = intersect(all, stop)
	}
	if all == nil {
		return nil, errAt(parts[0].jsonValue, "without %q in its texts it takes more than %d states", end, maxProduct)
	}
	return all.graph(), nil
}

// bareEnum is the listed texts that everything else allows.
func (c *schemaCompiler) bareEnum(f *facts, end string) (expr, error) {
	var options alt
	for _, v := range f.enum {
		ok, err := c.admits(f, v)
		switch {
		case err != nil:
			return nil, err
		case !ok || v.kind != jsonString:
		case end != "" && strings.Contains(v.text, end):
			return nil, errAt(v, "a text with %q in it cannot be written as an element", end)
		default:
			options = append(options, text(v.text))
		}
	}
	return options, nil
}

// Without is any text without special tokens in which stop does not come.
func Without(stop string) *Grammar { return single(without(stop)) }

func without(stop string) expr {
	if stop == "" {
		return star(anyRune)
	}
	f := freeText{next: []map[rune]int{{}}, stop: []bool{false}}
	f.add(stop)
	return f.graph(nil)
}

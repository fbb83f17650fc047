package schema

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// maxPatterns bounds the different patterns of the names of one object: names are told apart by which of them they match.
const maxPatterns = 8

// extra returns the languages of a property that is not declared, one for each kind of name; none if there may be none.
func (c *compiler) extra(f *facts, declared []property) (all []syntax.Expr, err error) {
	if names, err := c.listedNames(f); names != nil || err != nil {
		return nil, err // they are declared
	}
	closed := false // by what is declared alone
	for _, p := range f.parts {
		closed = closed || !c.Open && !p.made() && (p.get("properties") != nil || p.get("patternProperties") != nil) // an empty list is one: tools without arguments have it
	}
	closed = closed || !c.Open && slices.ContainsFunc(declared, func(p property) bool { return p.required })
	kinds, err := c.nameKinds(f, declared)
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		parts, said := c.extraSchemas(f.parts, k.matches)
		if !said && closed || slices.ContainsFunc(parts, func(p part) bool { return p.isFalse() }) {
			continue
		}
		value, err := c.schema(parts)
		if err != nil {
			return nil, err
		}
		name := syntax.Expr(c.otherName(declared))
		if k.names != nil {
			name = syntax.Seq{syntax.Text(`"`), syntax.Quoted{X: k.names.Graph()}, syntax.Text(`"`)}
		}
		all = append(all, syntax.Seq{name, syntax.Text(":"), c.gap, value})
	}
	return all, nil
}

// otherName is the language of the names that are not declared. They are spelled in one way only, so that a declared
// name cannot come in other letters.
func (c *compiler) otherName(declared []property) syntax.Expr {
	if len(declared) == 0 {
		return c.anyString()
	}
	return syntax.Seq{syntax.Text(`"`), syntax.Quoted{X: syntax.OtherText(namesOf(declared))}, syntax.Text(`"`)}
}

func namesOf(declared []property) (all []string) {
	for _, p := range declared {
		all = append(all, p.name)
	}
	return all
}

// nameKind is the names that match the same patterns.
type nameKind struct {
	names   *dfa.DFA        // nil: all that are not declared
	matches map[string]bool // by pattern
}

// nameKinds divides the names that are not declared and that propertyNames allows.
func (c *compiler) nameKinds(f *facts, declared []property) ([]nameKind, error) {
	allowed, err := c.namesAllowed(f)
	if err != nil {
		return nil, err
	}
	patterns := map[string]*jsonValue{}
	var order []string
	for _, p := range f.parts {
		list := p.get("patternProperties")
		if list == nil {
			continue
		}
		for i, pattern := range list.keys {
			if patterns[pattern] == nil {
				order = append(order, pattern)
				patterns[pattern] = list.items[i]
			}
		}
	}
	if allowed == nil && len(order) == 0 {
		return []nameKind{{}}, nil
	}
	if len(order) > maxPatterns {
		return nil, c.cannot(f.keyword("patternProperties"), "there are more than %d patterns of names", maxPatterns)
	}
	first := dfa.OverRunes(syntax.OtherText(namesOf(declared)), c.Meter)
	if first != nil && allowed != nil {
		first = dfa.Intersect(first, allowed, c.Meter)
	}
	kinds := []nameKind{{first, map[string]bool{}}}
	for _, pattern := range order {
		d, err := c.automaton(patterns[pattern], "pattern", pattern)
		if err != nil {
			return nil, c.cannotAs(f.keyword("patternProperties"), err)
		}
		var next []nameKind
		for _, k := range kinds {
			if k.names == nil {
				return nil, c.cannot(f.keyword("patternProperties"), "the names take more than %d states", dfa.MaxRuneStates)
			}
			with := map[string]bool{pattern: true}
			for other := range k.matches {
				with[other] = true
			}
			next = append(next, nameKind{dfa.Intersect(k.names, d, c.Meter), with}, nameKind{dfa.Intersect(k.names, dfa.Complement(d), c.Meter), k.matches})
		}
		kinds = slices.DeleteFunc(next, func(k nameKind) bool { return k.names != nil && k.names.Empty() })
	}
	for _, k := range kinds {
		if k.names == nil {
			return nil, c.cannot(f.keyword("propertyNames"), "the names take more than %d states", dfa.MaxRuneStates)
		}
		if err := c.look(len(k.names.States)); err != nil {
			return nil, err
		}
	}
	return kinds, nil
}

// extraSchemas is what a property has to satisfy that is not declared and whose name matches these patterns, and whether a keyword
// speaks of it.
func (c *compiler) extraSchemas(parts []part, matches map[string]bool) (all []part, said bool) {
	seen := make([]bool, len(parts))
	for i, p := range parts {
		if list := p.get("patternProperties"); list != nil {
			for j, pattern := range list.keys {
				if matches[pattern] {
					all, seen[i] = append(all, part{jsonValue: list.items[j]}), true
				}
			}
		}
		if more := p.get("additionalProperties"); more != nil && !seen[i] {
			all, seen[i] = append(all, part{jsonValue: more}), true
		}
	}
	rest := c.unseen("unevaluatedProperties", parts, seen)
	return append(all, rest...), len(rest) > 0 || slices.Contains(seen, true)
}

// namesAllowed is the names that propertyNames allows, nil for all.
func (c *compiler) namesAllowed(f *facts) (*dfa.DFA, error) {
	parts := nameParts(f)
	if parts == nil {
		return nil, nil
	}
	x, err := c.texts(parts, 0)
	if err != nil {
		return nil, c.cannotAs(f.keyword("propertyNames"), err)
	}
	if r, ok := x.(syntax.Repeat); ok && r.Min == 0 && r.Max < 0 {
		return nil, nil
	}
	d := dfa.OverRunes(x, c.Meter)
	if d == nil {
		return nil, c.cannot(f.keyword("propertyNames"), "the names take more than %d states", dfa.MaxRuneStates)
	}
	return d, nil
}

func nameParts(f *facts) (parts []part) {
	for _, p := range f.parts {
		if names := p.get("propertyNames"); names != nil {
			parts = append(parts, part{jsonValue: names})
		}
	}
	return parts
}

// maxListedNames bounds the names that are taken for declared because propertyNames lists them.
const maxListedNames = 1000

// listedNames is the names that propertyNames allows, if it lists them; nil if it does not.
func (c *compiler) listedNames(f *facts) ([]string, error) {
	parts := nameParts(f)
	if parts == nil {
		return nil, nil
	}
	values, ok, err := c.finite(parts, maxListedNames)
	if err != nil || !ok {
		return nil, err
	}
	names := []string{}
	for _, v := range values {
		if v.kind == jsonString {
			names = append(names, v.text)
		}
	}
	return names, nil
}

// texts is the strings that satisfy the parts, without quotes and escapes.
func (c *compiler) texts(parts []part, depth int) (syntax.Expr, error) {
	parts, err := c.flatten(parts)
	if err != nil {
		return nil, err
	}
	if depth > syntax.MaxNesting {
		return nil, errAt(parts[0].jsonValue, "it refers to itself with nothing in between")
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.isFalse() }) {
		return syntax.Alt{}, nil
	}
	choices, err := c.alternatives(parts)
	if err != nil {
		return nil, err
	}
	if choices != nil {
		var all syntax.Alt
		for _, with := range choices {
			x, err := c.texts(with, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, x)
		}
		return all, nil
	}
	f, err := c.facts(parts)
	if err != nil {
		return nil, err
	}
	s := &f.strings
	switch {
	case f.enum != nil:
		return c.bareEnum(f, "")
	case f.types&typeString == 0 || s.length.impossible():
		return syntax.Alt{}, nil
	case len(s.forms) == 0 && s.length == (sizes{0, -1}):
		return syntax.Star(syntax.AnyRune), nil
	}
	return c.together(s)
}

// finite lists the values that satisfy the parts, if there are at most so many.
func (c *compiler) finite(parts []part, most int) (all []*jsonValue, ok bool, err error) {
	parts, err = c.flatten(parts)
	if err != nil {
		return nil, false, err
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.isFalse() }) {
		return nil, true, nil
	}
	choices, err := c.alternatives(parts)
	if err != nil {
		return nil, false, err
	}
	for _, with := range choices {
		more, ok, err := c.finite(with, most-len(all))
		if !ok || err != nil {
			return nil, false, err
		}
		all = append(all, more...)
	}
	if choices != nil {
		return distinct(all), true, nil
	}
	f, err := c.facts(parts)
	if err != nil {
		return nil, false, err
	}
	candidates := f.enum
	if candidates == nil {
		if f.types&^(typeBoolean|typeNull) != 0 || len(parts) == 0 {
			return nil, false, nil
		}
		m := c.maker(parts[0].jsonValue)
		candidates = []*jsonValue{m.boolean(true), m.boolean(false), m.value(jsonNull, "null")}
	}
	if len(candidates) > most+3 {
		return nil, false, nil
	}
	for _, v := range candidates {
		ok, err := c.admits(f, v)
		if err != nil {
			return nil, false, err
		}
		if ok {
			all = append(all, v)
		}
	}
	return distinct(all), len(all) <= most, nil
}

// distinct leaves out values that equal others before them.
func distinct(list []*jsonValue) (all []*jsonValue) {
	seen := map[string]bool{}
	for _, v := range list {
		if name := v.canonical(); !seen[name] {
			seen[name] = true
			all = append(all, v)
		}
	}
	return all
}

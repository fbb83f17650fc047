package schema

import (
	"slices"
	"strconv"
)

// oneOf is anyOf if no value satisfies two of the options. Options are disjoint if they differ by type, by their
// listed values, or by a property that one of them requires: its values differ, or the other does not allow it. Otherwise it
// is enough that no value that can be generated satisfies two: objects are generated without undeclared properties, and a
// property whose values differ (a discriminator) is always generated. Else values of one option are written so that they do not satisfy
// the other, which is refused where that cannot be told.

// apart finds what each option of a oneOf has to satisfy beside itself so that a value written for it satisfies no other. parts are
// all that the value has to satisfy beside the options.
func (c *compiler) apart(group *jsonValue, parts []part) (beside [][]part, err error) {
	beside = make([][]part, len(group.items))
	always := make([]*jsonValue, len(group.items)) // the properties that options have to write
	for j, b := range group.items {
		for i, a := range group.items[:j] {
			x, y := []part{{jsonValue: a}}, []part{{jsonValue: b}}
			if ok, err := c.disjoint(x, y, 0); err != nil {
				return nil, err
			} else if ok {
				continue
			}
			name, ok, err := c.writtenApart(x, y, parts)
			switch {
			case err != nil:
				return nil, err
			case ok && name != nil:
				always[i], always[j] = requiring(group, i, always[i], name), requiring(group, j, always[j], name)
			case !ok:
				n, err := c.negateAll([]*jsonValue{a, b})
				if err != nil {
					return nil, &unenforced{group, errAt(b, "a value may satisfy this and option %d of oneOf, and what does not cannot be told (%w); let them differ by type, by what they require, or by const or enum of a property, or use anyOf", i, err)}
				}
				beside[i] = append(beside[i], part{jsonValue: n[1], quiet: true})
				beside[j] = append(beside[j], part{jsonValue: n[0], quiet: true})
			}
		}
	}
	for i, s := range always {
		if s != nil {
			beside[i] = append(beside[i], part{jsonValue: s})
		}
	}
	return beside, nil
}

// writtenApart reports whether no value written for a satisfies b, nor the other way round: if name is not nil, on condition
// that both write this property always.
func (c *compiler) writtenApart(a, b, beside []part) (name *jsonValue, ok bool, err error) {
	if a, err = c.flatten(a); err != nil {
		return nil, false, err
	}
	if b, err = c.flatten(b); err != nil {
		return nil, false, err
	}
	fa, err := c.facts(a)
	if err != nil {
		return nil, false, err
	}
	fb, err := c.facts(b)
	if err != nil || fa.kinds()&fb.kinds() != typeObject {
		return nil, false, err
	}
	if c.lacks(a, b, beside) && c.lacks(b, a, beside) {
		return nil, true, nil
	}
	for _, p := range a {
		list := p.get("properties")
		if list == nil {
			continue
		}
		if err := c.look(len(list.keys)); err != nil {
			return nil, false, err
		}
		for i, key := range list.keys {
			there := declared(b, key)
			if len(there) == 0 {
				continue
			}
			if ok, err := c.disjoint(declared(a, key), there, 1); ok || err != nil {
				return &jsonValue{kind: jsonString, text: key, above: list, key: list.items[i].key}, ok, err
			}
		}
	}
	return nil, false, nil
}

// lacks reports whether objects written for a never have a property that b requires.
func (c *compiler) lacks(a, b, beside []part) bool {
	written := slices.Concat(a, beside)
	for _, p := range written {
		choosy := p.get("anyOf") != nil && p.handled&anyOfChosen == 0 || p.get("oneOf") != nil && p.handled&oneOfChosen == 0 || p.get("if") != nil || p.get("patternProperties") != nil || p.get("enum") != nil || p.get("const") != nil
		if more := p.get("additionalProperties"); choosy || more != nil && !more.isFalse() {
			return false // which properties they have is not all there is to see
		}
	}
	if c.Open || !slices.ContainsFunc(written, func(p part) bool { return p.get("properties") != nil }) {
		return false // others than those declared are written
	}
	for _, p := range b {
		required := p.get("required")
		if required == nil {
			continue
		}
		for _, name := range required.items {
			if len(declared(written, name.text)) == 0 && !requires(written, name.text) {
				return true
			}
		}
	}
	return false
}

// requires reports whether one of the parts requires a property.
func requires(parts []part, name string) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		list := p.get("required")
		return list != nil && slices.ContainsFunc(list.items, func(v *jsonValue) bool { return v.text == name })
	})
}

// requiring is the schema of objects with the properties that one before requires, nil for none, and with another. It stands
// for nothing in the source: its id is one that no schema there has, the same for the same option.
func requiring(group *jsonValue, option int, before, name *jsonValue) *jsonValue {
	if before == nil {
		before = &jsonValue{kind: jsonObject, id: -group.items[option].id, above: group, key: strconv.Itoa(option), keys: []string{"required"}, items: []*jsonValue{{kind: jsonArray, above: group}}}
	}
	before.items[0].items = append(before.items[0].items, name)
	return before
}

// maxApart is the depth to which properties are compared to distinguish two options.
const maxApart = 3

// disjoint reports whether it is certain that no value satisfies both.
func (c *compiler) disjoint(a, b []part, depth int) (bool, error) {
	a, err := c.flatten(a)
	if err != nil {
		return false, err
	}
	if b, err = c.flatten(b); err != nil {
		return false, err
	}
	if slices.ContainsFunc(slices.Concat(a, b), func(p part) bool { return p.isFalse() }) {
		return true, nil
	}
	fa, err := c.facts(a)
	if err != nil {
		return false, err
	}
	fb, err := c.facts(b)
	if err != nil {
		return false, err
	}
	both := fa.kinds() & fb.kinds()
	switch {
	case both == 0 || fa.enum != nil && fb.enum != nil && !overlap(fa.enum, fb.enum):
		return true, nil
	case both != typeObject || depth == maxApart:
		return false, nil
	}
	if ok, err := c.discriminated(a, b, depth); ok || err != nil {
		return ok, err
	}
	return c.discriminated(b, a, depth)
}

// kinds is the types of the allowed values; integers are numbers here.
func (f *facts) kinds() jsonTypes {
	types := f.types
	if f.enum != nil {
		var listed jsonTypes
		for _, v := range f.enum {
			listed |= kindTypes[v.kind]
		}
		types &= listed
	}
	if types&typeInteger != 0 {
		types = types&^typeInteger | typeNumber
	}
	return types
}

func overlap(a, b []*jsonValue) bool {
	among := map[string]bool{}
	for _, v := range a {
		among[v.canonical()] = true
	}
	return slices.ContainsFunc(b, func(v *jsonValue) bool { return among[v.canonical()] })
}

// discriminated reports whether a property that a requires is another in b, or not allowed there.
func (c *compiler) discriminated(a, b []part, depth int) (bool, error) {
	for _, p := range a {
		required := p.get("required")
		if required == nil {
			continue
		}
		if err := c.look(len(required.items)); err != nil {
			return false, err
		}
		for _, name := range required.items {
			here, there := declared(a, name.text), declared(b, name.text)
			if len(there) == 0 {
				if slices.ContainsFunc(b, closed) {
					return true, nil
				}
				continue
			}
			if ok, err := c.disjoint(here, there, depth+1); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

// declared is the schemas of a property.
func declared(parts []part, name string) (all []part) {
	for _, p := range parts {
		if list := p.get("properties"); list != nil {
			if v := list.get(name); v != nil {
				all = append(all, part{jsonValue: v})
			}
		}
	}
	return all
}

// closed reports whether a schema allows no properties beside those that it declares.
func closed(p part) bool {
	more := p.get("additionalProperties")
	return more != nil && more.isFalse() && p.get("patternProperties") == nil
}

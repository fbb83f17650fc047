package grammar

import "slices"

// oneOf is anyOf where no value satisfies two of the options. That is seen where they differ by type, by their listed values,
// or by a property that one of them requires: its values differ, or the other allows no such property. Whatever else may tell
// them apart is not looked for, and the schema is refused.

// apart reports an error when two options of oneOf may both be satisfied.
func (c *schemaCompiler) apart(group *jsonValue) error {
	for j, b := range group.items {
		for i, a := range group.items[:j] {
			if ok, err := c.disjoint([]part{{jsonValue: a}}, []part{{jsonValue: b}}, 0); err != nil {
				return err
			} else if !ok {
				return errAt(b, "a value may satisfy this and option %d of oneOf; let them differ by type, or by const or enum of a property that is required, or use anyOf", i)
			}
		}
	}
	return nil
}

// maxApart is how deep properties are looked at for what tells two options apart.
const maxApart = 3

// disjoint reports whether it is certain that no value satisfies both.
func (c *schemaCompiler) disjoint(a, b []part, depth int) (bool, error) {
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

// kinds is the types of the values allowed; integers are numbers here.
func (f *facts) kinds() jsonTypes {
	types := f.types
	if f.enum != nil {
		var listed jsonTypes
		for _, v := range f.enum {
			listed |= map[jsonKind]jsonTypes{jsonNull: typeNull, jsonBool: typeBoolean, jsonObject: typeObject, jsonArray: typeArray, jsonString: typeString, jsonNumber: typeNumber | typeInteger}[v.kind]
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
func (c *schemaCompiler) discriminated(a, b []part, depth int) (bool, error) {
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

// declared is what parts say of a property.
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
	return more != nil && more.isFalse()
}

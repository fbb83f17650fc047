package schema

// facts is the constraints of several schemas combined.
type facts struct {
	parts   []part
	types   jsonTypes
	unique  bool         // items differ
	enum    []*jsonValue // nil: any value
	numbers numberFacts
	strings stringFacts
	items   sizes // of an array
	members sizes // of an object
}

// sizes is bounds of a count; max < 0 is none.
type sizes struct{ min, max int }

func (s *sizes) atLeast(v *jsonValue) {
	s.min = max(s.min, countOf(v))
}

func (s *sizes) atMost(v *jsonValue) {
	if n := countOf(v); s.max < 0 || n < s.max {
		s.max = n
	}
}

// impossible reports whether no count satisfies the bounds.
func (s sizes) impossible() bool { return s.max >= 0 && s.min > s.max }

// facts combines the constraints of all parts but for the items of arrays and the properties of objects, which are combined
// part by part.
func (c *compiler) facts(parts []part) (*facts, error) {
	f := &facts{parts: parts, types: anyType}
	f.items.max, f.members.max, f.strings.length.max = -1, -1, -1
	var typed bool
	var spoken jsonTypes // types that keywords speak of
	for _, p := range parts {
		if err := c.look(1 + len(p.keys)); err != nil {
			return nil, err
		}
		for i, key := range p.keys {
			v := p.items[i]
			if key == "enum" {
				if err := c.look(len(v.items)); err != nil {
					return nil, err
				}
			}
			spoken |= keywords[key].types
			typed = typed || key == "type" || key == "enum" || key == "const"
			if err := f.add(p, key, v); err != nil {
				return nil, err
			}
		}
	}
	if !typed && spoken != 0 {
		f.types &= spoken
	}
	return f, nil
}

func (f *facts) add(p part, key string, v *jsonValue) error {
	switch key {
	case "type":
		f.types &= typesOf(v)
	case "enum":
		f.only(v.items)
	case "const":
		f.only([]*jsonValue{v})
	case "minItems":
		f.items.atLeast(v)
	case "maxItems":
		f.items.atMost(v)
	case "minProperties":
		f.members.atLeast(v)
	case "maxProperties":
		f.members.atMost(v)
	case "uniqueItems":
		f.unique = f.unique || !v.isFalse()
	default:
		f.strings.add(key, v)
		return f.numbers.add(p.jsonValue, key, v)
	}
	return nil
}

func typesOf(v *jsonValue) (types jsonTypes) {
	if v.kind == jsonString {
		return typeNames[v.text]
	}
	for _, name := range v.items {
		types |= typeNames[name.text]
	}
	return types
}

// only intersects the allowed values with others.
func (f *facts) only(others []*jsonValue) {
	if f.enum == nil {
		f.enum = append([]*jsonValue{}, others...) // an empty list allows nothing
		return
	}
	among := map[string]bool{}
	for _, v := range others {
		among[v.canonical()] = true
	}
	both := []*jsonValue{}
	for _, v := range f.enum {
		if among[v.canonical()] {
			both = append(both, v)
		}
	}
	f.enum = both
}

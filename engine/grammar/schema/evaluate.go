package schema

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// valid reports whether a value of the source satisfies a schema.
func (c *compiler) valid(s, v *jsonValue) (bool, error) { return c.evaluate(s, v, 0) }

func (c *compiler) evaluate(s, v *jsonValue, depth int) (bool, error) {
	if depth > syntax.MaxNesting {
		return false, errAt(s, "it refers to itself with nothing in between")
	}
	if err := c.look(1 + len(s.keys)); err != nil {
		return false, err
	}
	if err := c.check(s); err != nil {
		return false, err
	}
	if s.kind == jsonBool {
		return s.text == "true", nil
	}
	for i, key := range s.keys {
		ok, err := c.holds(s, key, s.items[i], v, depth+1)
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// count is how many of the schemas a value satisfies.
func (c *compiler) count(list []*jsonValue, v *jsonValue, depth int) (n int, err error) {
	for _, s := range list {
		ok, err := c.evaluate(s, v, depth)
		if err != nil {
			return 0, err
		}
		if ok {
			n++
		}
	}
	return n, nil
}

// holds reports whether a value satisfies a keyword of s.
func (c *compiler) holds(s *jsonValue, key string, x, v *jsonValue, depth int) (bool, error) {
	switch key {
	case "type":
		return typesOf(x)&v.types() != 0, nil
	case "enum":
		return c.listedIn(x)[v.canonical()], nil
	case "const":
		return v.equal(x), nil
	case "allOf":
		n, err := c.count(x.items, v, depth)
		return n == len(x.items), err
	case "anyOf":
		n, err := c.count(x.items, v, depth)
		return n > 0, err
	case "oneOf":
		n, err := c.count(x.items, v, depth)
		return n == 1 || n > 1 && x.loose, err
	case "not":
		ok, err := c.evaluate(x, v, depth)
		return !ok, err
	case "$ref", "$dynamicRef":
		target, err := c.resolve(x)
		if err != nil {
			return false, err
		}
		return c.evaluate(target, v, depth)
	case "if":
		ok, err := c.evaluate(x, v, depth)
		if err != nil {
			return false, err
		}
		branch := s.get("else")
		if ok {
			branch = s.get("then")
		}
		if branch == nil {
			return true, nil
		}
		return c.evaluate(branch, v, depth)
	}
	if keywords[key].types&v.types() == 0 {
		return true, nil
	}
	switch v.kind {
	case jsonObject:
		return c.holdsOfObject(s, key, x, v, depth)
	case jsonArray:
		return c.holdsOfArray(s, key, x, v, depth)
	case jsonString:
		var f stringFacts
		f.length.max = -1
		f.add(key, x)
		return c.admit(&f, v.text)
	}
	var f numberFacts
	if err := f.add(s, key, x); err != nil {
		return false, err
	}
	return f.admit(v, anyType)
}

// listedIn is the canonical texts of the values of an enum, which may be many, each looked up once or more.
func (c *compiler) listedIn(enum *jsonValue) map[string]bool {
	all, ok := c.listed[enum]
	if !ok {
		all = make(map[string]bool, len(enum.items))
		for _, v := range enum.items {
			all[v.canonical()] = true
		}
		c.listed[enum] = all
	}
	return all
}

// types is the types that a value has.
func (v *jsonValue) types() jsonTypes {
	if v.kind != jsonNumber {
		return kindTypes[v.kind]
	}
	if d, ok := parseDecimal(v.text); ok && d.fraction == "" {
		return typeNumber | typeInteger
	}
	return typeNumber
}

// kindTypes is the types of values of a kind.
var kindTypes = map[jsonKind]jsonTypes{
	jsonNull: typeNull, jsonBool: typeBoolean, jsonObject: typeObject, jsonArray: typeArray, jsonString: typeString,
	jsonNumber: typeNumber | typeInteger,
}

func (v *jsonValue) equal(x *jsonValue) bool { return v.canonical() == x.canonical() }

func (c *compiler) holdsOfArray(s *jsonValue, key string, x, v *jsonValue, depth int) (bool, error) {
	prefix, rest := tuple(s)
	switch key {
	case "minItems":
		return len(v.items) >= countOf(x), nil
	case "maxItems":
		return len(v.items) <= countOf(x), nil
	case "uniqueItems":
		seen := map[string]bool{}
		for _, item := range v.items {
			seen[item.canonical()] = true
		}
		return x.isFalse() || len(seen) == len(v.items), nil
	case "prefixItems", "items", "additionalItems":
		for i, item := range v.items {
			own := rest
			if i < len(prefix) {
				own = prefix[i]
			}
			if own == nil {
				continue
			}
			if ok, err := c.evaluate(own, item, depth); !ok || err != nil {
				return false, err
			}
		}
	case "contains":
		least, most := containsBounds(s)
		n := 0
		for _, item := range v.items {
			ok, err := c.evaluate(x, item, depth)
			if err != nil {
				return false, err
			}
			if ok {
				n++
			}
		}
		return n >= least && (most < 0 || n <= most), nil
	case "unevaluatedItems":
		return false, c.cannotKeyword(x, "%q cannot be checked for the values that enum or const list", key)
	}
	return true, nil
}

func (c *compiler) holdsOfObject(s *jsonValue, key string, x, v *jsonValue, depth int) (bool, error) {
	switch key {
	case "minProperties":
		return len(v.keys) >= countOf(x), nil
	case "maxProperties":
		return len(v.keys) <= countOf(x), nil
	case "required":
		return !slices.ContainsFunc(x.items, func(name *jsonValue) bool { return v.get(name.text) == nil }), nil
	case "properties", "patternProperties", "additionalProperties":
		for i, name := range v.keys {
			schemas, err := c.ofProperty(s, name)
			if err != nil {
				return false, err
			}
			n, err := c.count(schemas, v.items[i], depth)
			if n < len(schemas) || err != nil {
				return false, err
			}
		}
	case "propertyNames":
		for _, name := range v.keys {
			ok, err := c.evaluate(x, &jsonValue{kind: jsonString, text: name, above: v}, depth)
			if !ok || err != nil {
				return false, err
			}
		}
	case "dependentRequired", "dependentSchemas", "dependencies":
		for _, rule := range c.dependencies(x) {
			ok, err := c.evaluate(rule, v, depth)
			if !ok || err != nil {
				return false, err
			}
		}
	case "unevaluatedProperties":
		return false, c.cannotKeyword(x, "%q cannot be checked for the values that enum or const list", key)
	}
	return true, nil
}

// ofProperty is the schemas that s's own keywords give a property.
func (c *compiler) ofProperty(s *jsonValue, name string) (all []*jsonValue, err error) {
	if list := s.get("properties"); list != nil {
		if own := list.get(name); own != nil {
			all = append(all, own)
		}
	}
	if list := s.get("patternProperties"); list != nil {
		for i, pattern := range list.keys {
			d, err := c.automaton(list.items[i], "pattern", pattern)
			if err != nil {
				return nil, err
			}
			if d.Matches(name) {
				all = append(all, list.items[i])
			}
		}
	}
	if more := s.get("additionalProperties"); more != nil && len(all) == 0 {
		all = append(all, more)
	}
	return all, nil
}

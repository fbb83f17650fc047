package schema

import (
	"slices"
)

// otherTypes is the values of all types but these.
func otherTypes(m maker, types jsonTypes) (options []*jsonValue) {
	rest := m.list()
	for _, name := range []string{"null", "boolean", "object", "array", "string", "number"} {
		if t := typeNames[name]; t&types == 0 {
			rest.items = append(rest.items, m.text(name))
		}
	}
	if len(rest.items) > 0 {
		options = append(options, m.object(member{"type", rest}))
	}
	if types&typeInteger != 0 && types&typeNumber == 0 {
		options = append(options, m.typed("number", fractional, m.boolean(true)))
	}
	return options
}

// otherValues is the values that are none of those listed.
func (c *compiler) otherValues(m maker, listed []*jsonValue) (options []*jsonValue, err error) {
	var kinds jsonTypes
	of := map[jsonKind][]*jsonValue{}
	for _, v := range listed {
		kinds |= kindTypes[v.kind]
		of[v.kind] = append(of[v.kind], v)
	}
	options = otherTypes(m, kinds)
	if list := of[jsonString]; list != nil {
		options = append(options, m.typed("string", otherThan, m.list(list...)))
	}
	for _, b := range []string{"false", "true"} {
		if list := of[jsonBool]; list != nil && !slices.ContainsFunc(list, func(v *jsonValue) bool { return v.text == b }) {
			options = append(options, m.object(member{"const", m.value(jsonBool, b)}))
		}
	}
	if list := of[jsonNumber]; list != nil {
		more, err := c.otherNumbers(m, list)
		if err != nil {
			return nil, err
		}
		options = append(options, more...)
	}
	for _, kind := range []jsonKind{jsonArray, jsonObject} {
		var each []*jsonValue // for each listed value, what is not it
		for _, v := range of[kind] {
			n, err := c.otherThanOne(m, v)
			if err != nil {
				return nil, err
			}
			each = append(each, m.either(n))
		}
		if len(each) > 0 {
			options = append(options, m.all(each...))
		}
	}
	return options, nil
}

// otherNumbers is the numbers before, between and behind those listed.
func (c *compiler) otherNumbers(m maker, list []*jsonValue) (options []*jsonValue, err error) {
	for _, v := range list {
		if _, ok := parseDecimal(v.text); !ok {
			return nil, c.cannot(v, "the number has more than %d digits", maxDigits)
		}
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *jsonValue) int {
		x, _ := parseDecimal(a.text)
		y, _ := parseDecimal(b.text)
		return x.rat().Cmp(y.rat())
	})
	for i := 0; i <= len(list); i++ {
		s := m.object(member{"type", m.text("number")})
		if i > 0 {
			s.keys, s.items = append(s.keys, "exclusiveMinimum"), append(s.items, list[i-1])
		}
		if i < len(list) {
			s.keys, s.items = append(s.keys, "exclusiveMaximum"), append(s.items, list[i])
		}
		options = append(options, s)
	}
	return options, nil
}

// otherThanOne is the arrays or objects that differ from one in their length, a missing property or a value. Objects with the same
// properties and more are left out.
func (c *compiler) otherThanOne(m maker, v *jsonValue) (options []*jsonValue, err error) {
	n := len(v.items)
	values := make([]*jsonValue, n)
	for i, item := range v.items {
		if values[i], err = c.negate(m.object(member{"const", item})); err != nil {
			return nil, err
		}
	}
	if v.kind == jsonObject {
		for i, name := range v.keys {
			options = append(options, m.typed("object", "properties", m.object(member{name, m.boolean(false)})),
				m.having(name, member{"properties", m.object(member{name, values[i]})}))
		}
		if n == 0 {
			options = append(options, m.typed("object", "minProperties", m.count(1)))
		}
		return options, nil
	}
	if n > 0 {
		options = append(options, m.typed("array", "maxItems", m.count(n-1)))
	}
	options = append(options, m.typed("array", "minItems", m.count(n+1)))
	for i := range values {
		prefix := m.list()
		for range i {
			prefix.items = append(prefix.items, m.boolean(true))
		}
		prefix.items = append(prefix.items, values[i])
		options = append(options, m.object(member{"type", m.text("array")}, member{"minItems", m.count(i + 1)}, member{"prefixItems", prefix}))
	}
	return options, nil
}

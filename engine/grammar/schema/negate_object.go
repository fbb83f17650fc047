package schema

// objectViolations is the objects that do not satisfy a keyword.
func (c *compiler) objectViolations(m maker, key string, x *jsonValue) (options []*jsonValue, err error) {
	switch key {
	case "required":
		for _, name := range x.items {
			options = append(options, m.typed("object", "properties", m.object(member{name.text, m.boolean(false)})))
		}
		return options, nil
	case "properties":
		for i, name := range x.keys {
			n, err := c.negate(x.items[i])
			if err != nil {
				return nil, err
			}
			options = append(options, m.having(name, member{"properties", m.object(member{name, n})}))
		}
		return options, nil
	case "minProperties":
		if countOf(x) == 0 {
			return nil, nil
		}
		return []*jsonValue{m.typed("object", "maxProperties", m.count(countOf(x)-1))}, nil
	case "maxProperties":
		return []*jsonValue{m.typed("object", "minProperties", m.count(countOf(x)+1))}, nil
	case "dependentRequired":
		for i, name := range x.keys {
			options = append(options, m.lacking(name, x.items[i])...)
		}
		return options, nil
	case "dependentSchemas", "dependencies":
		for i, name := range x.keys {
			if x.items[i].kind == jsonArray {
				options = append(options, m.lacking(name, x.items[i])...)
				continue
			}
			n, err := c.negate(x.items[i])
			if err != nil {
				return nil, err
			}
			options = append(options, m.having(name, member{"allOf", m.list(n)}))
		}
		return options, nil
	case "additionalProperties", "propertyNames":
		if allowsAll(x) {
			return nil, nil
		}
	}
	return nil, c.cannotKeyword(x, "that %q does not hold cannot be enforced", key)
}

// having is objects with a property and another keyword.
func (m maker) having(name string, also member) *jsonValue {
	return m.object(member{"type", m.text("object")}, member{"required", m.texts(name)}, also)
}

// lacking is the objects with a property that lack one of others.
func (m maker) lacking(name string, others *jsonValue) (options []*jsonValue) {
	for _, other := range others.items {
		options = append(options, m.having(name, member{"properties", m.object(member{other.text, m.boolean(false)})}))
	}
	return options
}

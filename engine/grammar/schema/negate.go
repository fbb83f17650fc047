package schema

// negate returns a schema of what a schema does not allow. What it cannot put so is an error: then its values cannot be told from
// others while they are written. A schema that it returns may allow less than all others, never a value of the schema itself.
func (c *compiler) negate(v *jsonValue) (*jsonValue, error) {
	if n, ok := c.negated[v]; ok {
		return n, nil
	}
	if err := c.look(1 + len(v.keys)); err != nil {
		return nil, err
	}
	if err := c.check(v); err != nil {
		return nil, err
	}
	m := c.maker(v)
	n := m.object() // filled below: a schema that refers to itself becomes one that does
	c.negated[v] = n
	if v.kind == jsonBool {
		n.kind, n.text = jsonBool, map[string]string{"true": "false", "false": "true"}[v.text]
		return n, nil
	}
	if v.cut {
		return nil, c.cannot(v, "it cannot be negated without what was left out of it")
	}
	var options []*jsonValue
	for i, key := range v.keys {
		if keywords[key].silent || isExtension(key) {
			continue
		}
		more, err := c.violations(m, v, key, v.items[i])
		if err != nil {
			delete(c.negated, v)
			return nil, err
		}
		options = append(options, more...)
	}
	x := m.either(options)
	if len(options) == 1 {
		n.keys, n.items = []string{"allOf"}, []*jsonValue{m.list(x)}
		return n, nil
	}
	n.kind, n.text, n.keys, n.items = x.kind, x.text, x.keys, x.items
	return n, nil
}

// negateAll negates several schemas.
func (c *compiler) negateAll(list []*jsonValue) (all []*jsonValue, err error) {
	for _, s := range list {
		n, err := c.negate(s)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// violations lists the ways not to satisfy a keyword of schema v.
func (c *compiler) violations(m maker, v *jsonValue, key string, x *jsonValue) ([]*jsonValue, error) {
	one := func(s ...*jsonValue) ([]*jsonValue, error) { return s, nil }
	switch key {
	case "type":
		return otherTypes(m, typesOf(x)), nil
	case "enum":
		return c.otherValues(m, x.items)
	case "const":
		return c.otherValues(m, []*jsonValue{x})
	case "allOf":
		return c.negateAll(x.items)
	case "anyOf":
		n, err := c.negateAll(x.items)
		return []*jsonValue{m.all(n...)}, err
	case "oneOf":
		return c.negateOneOf(m, x)
	case "not":
		return one(x)
	case "$ref", "$dynamicRef":
		target, err := c.resolve(x)
		if err != nil {
			return nil, err
		}
		n, err := c.negate(target)
		return []*jsonValue{n}, err
	case "if":
		return c.negateIf(m, v, x)
	case "then", "else", "minContains", "maxContains", "additionalItems":
		if key == "additionalItems" && v.get("items") != nil && v.get("items").kind == jsonArray && !allowsAll(x) {
			break
		}
		return nil, nil // said with if, contains or items
	}
	switch {
	case keywords[key].types&typeObject != 0:
		return c.objectViolations(m, key, x)
	case keywords[key].types&typeArray != 0:
		return c.arrayViolations(m, v, key, x)
	}
	if s := scalarViolation(m, key, x); s != nil {
		return one(s)
	}
	if key == fractional {
		return one(m.object(member{"type", m.text("integer")}))
	}
	return nil, c.cannotKeyword(x, "that %q does not hold cannot be enforced", key)
}

// allowsAll reports whether a schema allows every value.
func allowsAll(v *jsonValue) bool {
	return v.kind == jsonBool && v.text == "true" || v.kind == jsonObject && len(v.keys) == 0
}

func (c *compiler) negateOneOf(m maker, group *jsonValue) ([]*jsonValue, error) {
	none, err := c.negateAll(group.items)
	if err != nil {
		return nil, err
	}
	options := []*jsonValue{m.all(none...)}
	for j, b := range group.items {
		for _, a := range group.items[:j] {
			options = append(options, m.all(a, b))
		}
	}
	return options, nil
}

func (c *compiler) negateIf(m maker, v, condition *jsonValue) (options []*jsonValue, err error) {
	if then := v.get("then"); then != nil {
		n, err := c.negate(then)
		if err != nil {
			return nil, err
		}
		options = append(options, m.all(condition, n))
	}
	if other := v.get("else"); other != nil {
		n, err := c.negateAll([]*jsonValue{condition, other})
		if err != nil {
			return nil, err
		}
		options = append(options, m.all(n...))
	}
	return options, nil
}

// scalarViolation is the strings or numbers that do not satisfy a keyword, or nil.
func scalarViolation(m maker, key string, x *jsonValue) *jsonValue {
	switch key {
	case "minLength":
		if countOf(x) == 0 {
			return m.boolean(false)
		}
		return m.typed("string", "maxLength", m.count(countOf(x)-1))
	case "maxLength":
		return m.typed("string", "minLength", m.count(countOf(x)+1))
	case "pattern":
		return m.typed("string", otherPattern, m.text(x.text))
	case otherPattern:
		return m.typed("string", "pattern", m.text(x.text))
	case "exclusiveMinimum":
		if x.kind == jsonNumber {
			return m.typed("number", "maximum", x)
		}
	case "exclusiveMaximum":
		if x.kind == jsonNumber {
			return m.typed("number", "minimum", x)
		}
	case "minimum":
		return m.typed("number", "exclusiveMaximum", x)
	case "maximum":
		return m.typed("number", "exclusiveMinimum", x)
	}
	return nil
}

// arrayViolations is the arrays that do not satisfy a keyword.
func (c *compiler) arrayViolations(m maker, v *jsonValue, key string, x *jsonValue) ([]*jsonValue, error) {
	switch key {
	case "minItems":
		if countOf(x) == 0 {
			return nil, nil
		}
		return []*jsonValue{m.typed("array", "maxItems", m.count(countOf(x)-1))}, nil
	case "maxItems":
		return []*jsonValue{m.typed("array", "minItems", m.count(countOf(x)+1))}, nil
	case "uniqueItems":
		if x.isFalse() {
			return nil, nil
		}
	case "prefixItems":
		return c.wrongPlaces(m, x.items)
	case "items":
		switch {
		case x.kind == jsonArray:
			return c.wrongPlaces(m, x.items)
		case allowsAll(x):
			return nil, nil
		case v.get("prefixItems") == nil:
			n, err := c.negate(x)
			return []*jsonValue{m.typed("array", "contains", n)}, err
		}
	case "contains":
		return c.negateContains(m, v, x)
	}
	return nil, c.cannotKeyword(x, "that %q does not hold cannot be enforced", key)
}

// wrongPlaces is the arrays of which one item is not as listed.
func (c *compiler) wrongPlaces(m maker, list []*jsonValue) (options []*jsonValue, err error) {
	for i, s := range list {
		n, err := c.negate(s)
		if err != nil {
			return nil, err
		}
		prefix := m.list()
		for range i {
			prefix.items = append(prefix.items, m.boolean(true))
		}
		prefix.items = append(prefix.items, n)
		options = append(options, m.object(member{"type", m.text("array")}, member{"minItems", m.count(i + 1)}, member{"prefixItems", prefix}))
	}
	return options, nil
}

func (c *compiler) negateContains(m maker, v, x *jsonValue) (options []*jsonValue, err error) {
	least, most := containsBounds(v)
	if least == 1 {
		n, err := c.negate(x)
		if err != nil {
			return nil, err
		}
		options = append(options, m.typed("array", "items", n))
	} else if least > 1 {
		options = append(options, m.object(member{"type", m.text("array")}, member{"contains", x}, member{"minContains", m.count(0)}, member{"maxContains", m.count(least - 1)}))
	}
	if most >= 0 {
		options = append(options, m.object(member{"type", m.text("array")}, member{"contains", x}, member{"minContains", m.count(most + 1)}))
	}
	return options, nil
}

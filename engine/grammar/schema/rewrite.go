package schema

// meaning returns schemas that say the same as keywords of p which have no rules of their own: dependentRequired, dependentSchemas
// and dependencies. They are made once.
func (c *compiler) meaning(p part) (all []*jsonValue) {
	for i, key := range p.keys {
		switch key {
		case "dependentRequired", "dependentSchemas", "dependencies":
			all = append(all, c.dependencies(p.items[i])...)
		}
	}
	return all
}

// dependencies says for each property: it is not there, or what depends on it holds.
func (c *compiler) dependencies(list *jsonValue) []*jsonValue {
	if made, ok := c.depending[list]; ok {
		return made
	}
	m := c.maker(list)
	all := []*jsonValue{}
	for i, name := range list.keys {
		without := m.object(member{"properties", m.object(member{name, m.boolean(false)})})
		with := m.object(member{"required", m.texts(name)})
		if x := list.items[i]; x.kind == jsonArray {
			with.items[0].items = append(with.items[0].items, x.items...)
		} else {
			with.keys, with.items = append(with.keys, "allOf"), append(with.items, m.list(x))
		}
		all = append(all, m.either([]*jsonValue{without, with}))
	}
	c.depending[list] = all
	return all
}

// alternatives splits parts into those of several options of which one has to hold, by the first keyword that has options; nil if
// none does.
func (c *compiler) alternatives(parts []part) ([][]part, error) {
	for i, p := range parts {
		if group := p.get("anyOf"); group != nil && p.handled&anyOfChosen == 0 {
			p.handled |= anyOfChosen
			return c.options(parts, i, p, group, nil), nil
		}
		if group := p.get("oneOf"); group != nil && p.handled&oneOfChosen == 0 {
			p.handled |= oneOfChosen
			var beside [][]part
			if !group.loose {
				var err error
				if beside, err = c.apart(group, without(parts, i, p)); err != nil {
					return nil, err
				}
			}
			return c.options(parts, i, p, group, beside), nil
		}
		if condition := p.get("if"); condition != nil && p.handled&ifDecided == 0 && (c.hasBranch(p) || p.scope > 0) {
			p.handled |= ifDecided
			return c.branches(parts, i, p, condition)
		}
	}
	return nil, nil
}

func (c *compiler) hasBranch(p part) bool {
	return p.get("then") != nil || p.get("else") != nil || p.get("unevaluatedProperties") != nil || p.get("unevaluatedItems") != nil
}

// options takes each schema of a group in turn, together with all other parts and with those beside the option.
func (c *compiler) options(parts []part, at int, chosen part, group *jsonValue, beside [][]part) (all [][]part) {
	for i, option := range group.items {
		with := append(without(parts, at, chosen), c.child(chosen, option))
		if beside != nil {
			with = append(with, beside[i]...)
		}
		all = append(all, with)
	}
	return all
}

// without is the parts with the one at a place replaced.
func without(parts []part, at int, by part) []part {
	all := append([]part(nil), parts...)
	all[at] = by
	return all
}

// branches is: the condition and then, or not the condition and else.
func (c *compiler) branches(parts []part, at int, p part, condition *jsonValue) ([][]part, error) {
	no, err := c.negate(condition)
	if err != nil {
		return nil, c.cannotAs(condition, err)
	}
	hold := append(without(parts, at, p), c.child(p, condition))
	fail := append(without(parts, at, p), c.quiet(p, no))
	if then := p.get("then"); then != nil {
		hold = append(hold, c.child(p, then))
	}
	if other := p.get("else"); other != nil {
		fail = append(fail, c.child(p, other))
	}
	return [][]part{hold, fail}, nil
}

// quiet is a schema at the same place of which unevaluated keywords know nothing.
func (c *compiler) quiet(p part, v *jsonValue) part {
	q := c.child(p, v)
	q.quiet = true
	return q
}

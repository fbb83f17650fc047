package jinja

// globalNamed finds a global, or gives missing.
func globalNamed(name string) any {
	var fn func(*render, args) (any, error)
	switch name {
	case "range":
		fn = globalRange
	case "dict":
		fn = globalDict
	case "namespace":
		fn = globalNamespace
	case "cycler":
		fn = globalCycler
	case "joiner":
		fn = globalJoiner
	case "raise_exception":
		fn = raiseException
	case "strftime_now":
		fn = strftimeNow
	case "lipsum":
		fn = func(*render, args) (any, error) {
			return nil, fail("lipsum() is refused: a prompt must be the same text each time")
		}
	default:
		return missing
	}
	return &builtin{name, fn}
}

// raiseException fails with the template author's sentence, as it is.
func raiseException(r *render, a args) (any, error) {
	got, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return nil, err
	}
	message, err := r.str(got[0])
	if err != nil {
		return nil, err
	}
	return nil, &Error{Kind: Raised, Message: message}
}

func strftimeNow(r *render, a args) (any, error) {
	got, err := a.bind("strftime_now", 1, "format")
	if err != nil {
		return nil, err
	}
	format, ok := text(got[0])
	if !ok {
		return nil, fail("strftime() argument 1 must be str, not %s", typeName(got[0]))
	}
	s := strftime(format, r.now)
	return s, r.grow(len(s))
}

func globalRange(_ *render, a args) (any, error) {
	got, err := a.bind("range", 1, "start/", "stop/", "step/")
	if err != nil {
		return nil, err
	}
	bound := [3]int{0, 0, 1}
	for i, v := range got {
		if bound[i], err = integerOr(v, bound[i]); err != nil {
			return nil, err
		}
	}
	v := &rangeValue{int64(bound[0]), int64(bound[1]), int64(bound[2])}
	if got[1] == missing {
		v.from, v.to = 0, v.from
	}
	if v.step == 0 {
		return nil, fail("range() arg 3 must not be zero")
	}
	if v.length() > maxRange {
		return nil, failKind(Limit, "range of %d numbers is too big; the sandbox allows %d", v.length(), maxRange)
	}
	return v, nil
}

// globalDict is dict(mapping or pairs, **entries).
func globalDict(r *render, a args) (any, error) {
	if len(a.pos) > 1 {
		return nil, fail("dict expected at most 1 argument, got %d", len(a.pos))
	}
	m := NewMap()
	if len(a.pos) == 1 {
		if src, ok := a.pos[0].(*Map); ok {
			m = src.Clone()
			if err := r.grow(2 * slotBytes * m.Len()); err != nil {
				return nil, err
			}
		} else if err := putPairs(r, m, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		if err := m.set(r, k.name, k.value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func putPairs(r *render, m *Map, pairs any) error {
	items, err := r.items(pairs)
	if err != nil {
		return err
	}
	for i, item := range items {
		pair, err := r.items(item)
		if err != nil {
			return fail("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if len(pair) != 2 {
			return fail("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		if err := m.set(r, pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func globalNamespace(r *render, a args) (any, error) {
	m, err := globalDict(r, a)
	if err != nil {
		return nil, err
	}
	return &namespace{m.(*Map)}, nil
}

// cycler goes round its items.
type cycler struct {
	items []any
	pos   int
}

func globalCycler(_ *render, a args) (any, error) {
	if err := a.noKeywords("cycler"); err != nil {
		return nil, err
	}
	if len(a.pos) == 0 {
		return nil, fail("at least one item has to be provided")
	}
	return &cycler{items: a.pos}, nil
}

func (c *cycler) attribute(name string) (any, bool, error) {
	switch name {
	case "current":
		return c.items[c.pos], true, nil
	case "items":
		return &Tuple{items: c.items}, true, nil
	case "pos":
		return int64(c.pos), true, nil
	case "next", "reset":
		return &boundMethod{c, name, func(_ *render, _ any, a args) (any, error) {
			_, err := a.bind(name, 0)
			if name == "reset" {
				c.pos = 0
				return nil, err
			}
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, err
		}}, true, nil
	}
	return nil, false, nil
}

// joiner gives nothing when it is called first, and its separator from then on.
type joiner struct {
	sep  any
	used bool
}

func globalJoiner(_ *render, a args) (any, error) {
	got, err := a.bind("joiner", 0, "sep")
	if err != nil {
		return nil, err
	}
	if got[0] == missing {
		got[0] = ", "
	}
	return &joiner{sep: got[0]}, nil
}

func (j *joiner) call(_ *render, a args) (any, error) {
	_, err := a.bind("joiner", 0)
	if !j.used {
		j.used = true
		return "", err
	}
	return j.sep, err
}

func (j *joiner) attribute(name string) (any, bool) {
	switch name {
	case "sep":
		return j.sep, true
	case "used":
		return j.used, true
	}
	return nil, false
}

// numberAttribute gives what numbers show of themselves.
func numberAttribute(v any, name string) (any, bool, error) {
	if !isNumber(v) {
		return nil, false, nil
	}
	f, isFloat := v.(float64)
	i, _ := bigInt(v)
	bound := func(get func() (any, error)) (any, bool, error) {
		return &boundMethod{v, name, func(_ *render, _ any, a args) (any, error) {
			if _, err := a.bind(name, 0); err != nil {
				return nil, err
			}
			return get()
		}}, true, nil
	}
	switch {
	case name == "real" || name == "numerator" && !isFloat:
		if isFloat {
			return v, true, nil
		}
		return normalInt(i), true, nil
	case name == "imag":
		if isFloat {
			return 0.0, true, nil
		}
		return int64(0), true, nil
	case name == "denominator" && !isFloat:
		return int64(1), true, nil
	case name == "conjugate":
		return bound(func() (any, error) { v, err := signed(false, v); return v, err })
	case name == "is_integer" && isFloat:
		return bound(func() (any, error) { return f == float64(int64(f)), nil })
	case name == "bit_length" && !isFloat:
		return bound(func() (any, error) { return int64(i.BitLen()), nil })
	case name == "hex" && isFloat:
		return bound(func() (any, error) { return nil, fail("float.%s is not supported", name) })
	case (name == "to_bytes" || name == "from_bytes" || name == "bit_count" || name == "as_integer_ratio") && !isFloat:
		return bound(func() (any, error) { return nil, fail("int.%s is not supported", name) })
	}
	return nil, false, nil
}

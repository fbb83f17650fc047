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
	case "raise_exception":
		fn = raiseException
	case "strftime_now":
		fn = strftimeNow
	case "cycler", "joiner", "lipsum":
		fn = func(*render, args) (any, error) {
			return nil, failKind(Unsupported, "Ridge's Jinja does not have %s()", name)
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

package jinja

// filterMap applies a filter to each item, or takes an attribute of each. Nothing happens before an item is wanted.
func filterMap(r *render, value any, a args) (any, error) {
	return r.lazy(func() (iterator, error) {
		if !truth(value) {
			return sliceIterator(nil), nil
		}
		get, err := r.mapper(a)
		if err != nil {
			return nil, err
		}
		next, err := r.iterate(value)
		if err != nil {
			return nil, err
		}
		return func() (any, bool, error) {
			item, ok, err := next()
			if err != nil || !ok {
				return nil, false, err
			}
			if err := r.step(1); err != nil {
				return nil, false, err
			}
			item, err = get(item)
			return item, err == nil, err
		}, nil
	}), nil
}

func (r *render) mapper(a args) (getter, error) {
	if len(a.pos) == 0 {
		if attribute, ok := a.take("attribute"); ok {
			def, ok := a.take("default")
			if !ok {
				def = missing
			}
			if len(a.kw) > 0 {
				return nil, fail("Unexpected keyword argument '%s'", a.kw[0].name)
			}
			return r.attrGetter(attribute, def, nil), nil
		}
		return nil, fail("map requires a filter argument")
	}
	name, _ := text(a.pos[0])
	fn := filterNamed(name)
	if fn == nil {
		return nil, fail("No filter named '%s'.", name)
	}
	rest := args{a.pos[1:], a.kw}
	return func(item any) (any, error) { return fn(r, item, rest) }, nil
}

// filterSelect is select, reject, selectattr and rejectattr.
func filterSelect(name string) filter {
	byAttr := name == "selectattr" || name == "rejectattr"
	want := name == "select" || name == "selectattr"
	return func(r *render, value any, a args) (any, error) {
		return r.lazy(func() (iterator, error) {
			if !truth(value) {
				return sliceIterator(nil), nil
			}
			pass, err := r.selector(a, byAttr)
			if err != nil {
				return nil, err
			}
			return r.filtered(value, func(item any) (bool, error) {
				ok, err := pass(item)
				return ok == want, err
			}).next, nil
		}), nil
	}
}

// selector makes the test of a select filter from its arguments: [attribute,] [test, arguments…]. No test is truth.
func (r *render) selector(a args, byAttr bool) (func(any) (bool, error), error) {
	get := r.attrGetter(nil, missing, nil)
	if byAttr {
		if len(a.pos) == 0 {
			return nil, fail("Missing parameter for attribute name")
		}
		get = r.attrGetter(a.pos[0], missing, nil)
		a.pos = a.pos[1:]
	}
	if len(a.pos) == 0 {
		return func(item any) (bool, error) {
			v, err := get(item)
			return truth(v), err
		}, nil
	}
	name, _ := text(a.pos[0])
	fn := testNamed(name)
	rest := args{a.pos[1:], a.kw}
	return func(item any) (bool, error) {
		if fn == nil {
			return false, fail("No test named '%s'.", name)
		}
		v, err := get(item)
		if err != nil {
			return false, err
		}
		v, err = fn(r, v, rest)
		return truth(v), err
	}, nil
}

package jinja

// dictMethod finds a method of dict that does not change it, or one that does, which guard forbids.
func dictMethod(name string) method {
	switch name {
	case "get":
		return dictGet
	case "keys", "values", "items":
		return func(_ *render, recv any, a args) (any, error) {
			_, err := a.bind(name, 0)
			return &dictView{recv.(*Map), name}, err
		}
	case "copy":
		return func(r *render, recv any, a args) (any, error) {
			m := recv.(*Map)
			if err := r.grow(2 * slotBytes * m.Len()); err != nil {
				return nil, err
			}
			_, err := a.bind(name, 0)
			return m.Clone(), err
		}
	case "fromkeys":
		return dictFromKeys
	case "clear", "pop", "popitem", "setdefault", "update":
		return forbiddenMethod
	}
	return nil
}

// forbiddenMethod stands for a method that exists and that guard never gives out.
func forbiddenMethod(*render, any, args) (any, error) {
	return nil, failKind(Security, "a template cannot change its data")
}

func dictGet(_ *render, recv any, a args) (any, error) {
	got, err := a.bind("get", 1, "key/", "default/")
	if err != nil {
		return nil, err
	}
	hash, ok := hashKey(got[0])
	if !ok {
		return nil, fail("unhashable type: '%s'", typeName(got[0]))
	}
	m := recv.(*Map)
	if i := m.find(hash); i >= 0 {
		return m.values[i], nil
	}
	if got[1] == missing {
		return nil, nil
	}
	return got[1], nil
}

func dictFromKeys(r *render, _ any, a args) (any, error) {
	got, err := a.bind("fromkeys", 1, "iterable/", "value/")
	if err != nil {
		return nil, err
	}
	items, err := r.items(got[0])
	if err != nil {
		return nil, err
	}
	if got[1] == missing {
		got[1] = nil
	}
	m := NewMap()
	for _, k := range items {
		if err := m.set(r, k, got[1]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func listMethod(name string) method {
	switch name {
	case "copy":
		return func(r *render, recv any, a args) (any, error) {
			if _, err := a.bind(name, 0); err != nil {
				return nil, err
			}
			items, err := r.joinItems(recv.(*List).items, nil)
			return &List{items}, err
		}
	case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
		return forbiddenMethod
	}
	return tupleMethod(name)
}

// tupleMethod finds count and index, which lists, tuples and ranges have.
func tupleMethod(name string) method {
	switch name {
	case "count":
		return func(r *render, recv any, a args) (any, error) {
			got, err := a.bind(name, 1, "value/")
			if err != nil {
				return nil, err
			}
			n := 0
			err = r.eachEqual(recv, got[0], func(int) bool { n++; return true })
			return int64(n), err
		}
	case "index":
		return sequenceIndex
	}
	return nil
}

// eachEqual calls found with the place of each item equal to value until found returns false.
func (r *render) eachEqual(sequence, value any, found func(int) bool) error {
	items, err := r.items(sequence)
	if err != nil {
		return err
	}
	for i, item := range items {
		same, err := r.equal(item, value)
		if err != nil {
			return err
		}
		if same && !found(i) {
			return nil
		}
	}
	return nil
}

func sequenceIndex(r *render, recv any, a args) (any, error) {
	got, err := a.bind("index", 1, "value/", "start/", "stop/")
	if err != nil {
		return nil, err
	}
	n, _, err := r.length(recv)
	if err != nil {
		return nil, err
	}
	from, err := integerOr(got[1], 0)
	if err != nil {
		return nil, err
	}
	to, err := integerOr(got[2], n)
	if err != nil {
		return nil, err
	}
	if from < 0 {
		from += n
	}
	if to < 0 {
		to += n
	}
	at := -1
	err = r.eachEqual(recv, got[0], func(i int) bool {
		if i >= from && i < to {
			at = i
		}
		return at < 0
	})
	if err == nil && at < 0 {
		err = fail("the value is not in the %s", typeName(recv))
	}
	return int64(at), err
}

func (v *rangeValue) attribute(name string) (any, bool, error) {
	switch name {
	case "start":
		return v.from, true, nil
	case "stop":
		return v.to, true, nil
	case "step":
		return v.step, true, nil
	}
	m := tupleMethod(name)
	return &boundMethod{v, name, m}, m != nil, nil
}

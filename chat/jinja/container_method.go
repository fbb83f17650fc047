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
	case "copy", "fromkeys":
		return refusedMethod("dict", name)
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

func listMethod(name string) method {
	switch name {
	case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
		return forbiddenMethod
	case "copy":
		return refusedMethod("list", name)
	}
	return sequenceMethod("list", name)
}

// sequenceMethod finds what lists, tuples and ranges have in Python and templates do not use.
func sequenceMethod(kind, name string) method {
	switch name {
	case "count", "index":
		return refusedMethod(kind, name)
	}
	return nil
}

// refusedMethod stands for a method of Python that chat templates do not use. It fails when it is called, so that a template
// that only names it can be rendered.
func refusedMethod(kind, name string) method {
	return func(*render, any, args) (any, error) {
		return nil, failKind(Unsupported, "Ridge's Jinja does not have %s.%s", kind, name)
	}
}

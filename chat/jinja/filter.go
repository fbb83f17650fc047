package jinja

// filter is value|name(args).
type filter func(r *render, value any, a args) (any, error)

// filterNamed finds a filter, or gives nil.
func filterNamed(name string) filter {
	switch name {
	case "attr":
		return filterAttr
	case "capitalize":
		return textFilter(name, capitalize)
	case "d", "default":
		return filterDefault
	case "e", "escape":
		return filterEscape
	case "indent":
		return filterIndent
	case "int":
		return filterInt
	case "lower":
		return textFilter(name, lower)
	case "replace":
		return filterReplace
	case "safe":
		return filterSafe
	case "string":
		return filterString
	case "title":
		return textFilter(name, filterTitle)
	case "tojson":
		return filterToJSON
	case "trim":
		return filterTrim
	case "upper":
		return textFilter(name, upper)
	case "abs", "batch", "center", "filesizeformat", "float", "forceescape", "format", "groupby", "pprint", "random", "round",
		"slice", "striptags", "sum", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr":
		return refusedFilter(name)
	}
	return sequenceFilterNamed(name)
}

// sequenceFilterNamed finds a filter of sequences.
func sequenceFilterNamed(name string) filter {
	switch name {
	case "count", "length":
		return filterLength
	case "dictsort":
		return filterDictSort
	case "first":
		return filterFirst
	case "items":
		return filterItems
	case "join":
		return filterJoin
	case "last":
		return filterLast
	case "list":
		return filterList
	case "map":
		return filterMap
	case "max", "min":
		return filterExtreme(name)
	case "reject", "rejectattr", "select", "selectattr":
		return filterSelect(name)
	case "reverse":
		return filterReverse
	case "sort":
		return filterSort
	case "unique":
		return filterUnique
	}
	return nil
}

// refusedFilter stands for a built-in filter of Jinja2 that chat templates do not use. It fails when it is applied, so that a
// template that only names it can be rendered.
func refusedFilter(name string) filter {
	return func(*render, any, args) (any, error) {
		return nil, failKind(Unsupported, "Ridge's Jinja does not have the filter '%s'", name)
	}
}

// textFilter makes a filter without arguments from a function on text.
func textFilter(name string, fn func(string) string) filter {
	return func(r *render, value any, a args) (any, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		s, err := r.str(value)
		if err != nil {
			return nil, err
		}
		if err := r.grow(3 * len(s)); err != nil {
			return nil, err
		}
		return like(value, fn(s)), nil
	}
}

func filterLength(r *render, value any, a args) (any, error) {
	if _, err := a.bind("length", 0); err != nil {
		return nil, err
	}
	n, ok, err := r.length(value)
	if err == nil && !ok {
		err = fail("object of type '%s' has no len()", typeName(value))
	}
	return int64(n), err
}

func filterDefault(_ *render, value any, a args) (any, error) {
	got, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	_, absent := value.(*undefined)
	if absent || got[1] != missing && truth(got[1]) && !truth(value) {
		if got[0] == missing {
			return "", nil
		}
		return got[0], nil
	}
	return value, nil
}

func filterAttr(r *render, value any, a args) (any, error) {
	got, err := a.bind("attr", 1, "name")
	if err != nil {
		return nil, err
	}
	name, ok := text(got[0])
	if !ok {
		return nil, fail("attribute name must be string, not '%s'", typeName(got[0]))
	}
	v, found, err := r.attribute(value, name)
	if err != nil || found {
		return guard(value, name, v), err
	}
	return notThere(value, name), nil
}

func filterString(r *render, value any, a args) (any, error) {
	if _, err := a.bind("string", 0); err != nil || isMarkup(value) {
		return value, err
	}
	return r.str(value)
}

func filterList(r *render, value any, a args) (any, error) {
	if _, err := a.bind("list", 0); err != nil {
		return nil, err
	}
	items, err := r.items(value)
	if err != nil {
		return nil, err
	}
	items, err = r.joinItems(items, nil)
	return &List{items}, err
}

// filterItems gives the entries of a mapping; like a generator function, it complains only when it is gone through.
func filterItems(r *render, value any, a args) (any, error) {
	if _, err := a.bind("items", 0); err != nil {
		return nil, err
	}
	return r.lazy(func() (iterator, error) {
		switch m := value.(type) {
		case *undefined:
			return sliceIterator(nil), nil
		case *Map:
			return r.iterate(&dictView{m, "items"})
		}
		return nil, fail("Can only get item pairs from a mapping.")
	}), nil
}

// lazy makes a generator that starts when its first item is wanted. Generators made of one another nest, as calls do.
func (r *render) lazy(start func() (iterator, error)) *generator {
	var next iterator
	return &generator{"generator", func() (item any, ok bool, err error) {
		if err := r.enter(); err != nil {
			return nil, false, err
		}
		defer r.leave()
		if next == nil {
			if next, err = start(); err != nil {
				next = sliceIterator(nil)
				return nil, false, err
			}
		}
		return next()
	}}
}

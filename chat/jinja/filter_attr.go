package jinja

import (
	"strconv"
	"strings"
)

// getter takes a value's attribute, or what else a filter looks at.
type getter func(any) (any, error)

// attrGetter makes a getter of an attribute such as "name", "address.city" or "0.name", by the rules of item. No
// attribute is the value itself. With a default, that stands for what is undefined; then comes post, if it is not nil.
func (r *render) attrGetter(attribute, def any, post func(any) any) getter {
	var parts []any
	switch a := attribute.(type) {
	case nil, missingValue:
	case string, Markup:
		s, _ := text(a)
		parts = attributeParts(s)
	default:
		parts = []any{a}
	}
	return func(v any) (any, error) {
		for _, part := range parts {
			var err error
			if v, err = r.item(v, part); err != nil {
				return nil, err
			}
			if _, absent := v.(*undefined); absent && def != missing && def != nil {
				v = def
			}
		}
		if post != nil {
			v = post(v)
		}
		return v, nil
	}
}

func attributeParts(s string) []any {
	var parts []any
	for _, part := range strings.Split(s, ".") {
		if i, err := strconv.ParseUint(part, 10, 63); err == nil {
			parts = append(parts, int64(i))
			continue
		}
		parts = append(parts, part)
	}
	return parts
}

// ignoreCase is lower case for texts.
func ignoreCase(v any) any {
	if s, ok := text(v); ok {
		return lower(s)
	}
	return v
}

// casePost is ignoreCase unless the argument case_sensitive is true.
func casePost(caseSensitive any) func(any) any {
	if caseSensitive != missing && truth(caseSensitive) {
		return nil
	}
	return ignoreCase
}

// keysOf applies a getter to all items.
func keysOf(items []any, get getter) ([]any, error) {
	keys := make([]any, len(items))
	for i, item := range items {
		var err error
		if keys[i], err = get(item); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func filterSort(r *render, value any, a args) (any, error) {
	got, err := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	attributes := []any{got[2]}
	if s, ok := text(got[2]); ok {
		attributes = nil
		for _, part := range strings.Split(s, ",") {
			attributes = append(attributes, part)
		}
	}
	var getters []getter
	for _, attribute := range attributes {
		get := r.attrGetter(attribute, missing, casePost(got[1]))
		getters = append(getters, get)
	}
	items, err := r.items(value)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(items, func(item any) (any, error) {
		list := &List{}
		for _, get := range getters {
			key, err := get(item)
			if err != nil {
				return nil, err
			}
			list.items = append(list.items, key)
		}
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	reverse, err := integerOr(got[0], 0)
	if err != nil {
		return nil, err
	}
	items, err = r.sortBy(items, keys, reverse != 0)
	return &List{items}, err
}

func filterDictSort(r *render, value any, a args) (any, error) {
	got, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	by := 0
	if got[1] != missing {
		switch s, _ := text(got[1]); s {
		case "key":
		case "value":
			by = 1
		default:
			return nil, fail(`You can only sort by either "key" or "value"`)
		}
	}
	if u, ok := value.(*undefined); ok {
		return nil, u.fail()
	}
	m, ok := value.(*Map)
	if !ok {
		return nil, fail("'%s' object has no attribute 'items'", typeName(value))
	}
	items, err := r.items(&dictView{m, "items"})
	if err != nil {
		return nil, err
	}
	post := casePost(got[0])
	keys, _ := keysOf(items, func(item any) (any, error) {
		key := item.(*Tuple).items[by]
		if post != nil {
			key = post(key)
		}
		return key, nil
	})
	reverse, err := integerOr(got[2], 0)
	if err != nil {
		return nil, err
	}
	items, err = r.sortBy(items, keys, reverse != 0)
	return &List{items}, err
}

func filterUnique(r *render, value any, a args) (any, error) {
	got, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get := r.attrGetter(got[1], missing, casePost(got[0]))
	seen := map[any]bool{}
	return r.filtered(value, func(item any) (bool, error) {
		key, err := get(item)
		if err != nil {
			return false, err
		}
		hash, ok := hashKey(key)
		if !ok {
			return false, fail("unhashable type: '%s'", typeName(key))
		}
		fresh := !seen[hash]
		seen[hash] = true
		return fresh, r.grow(2 * slotBytes)
	}), nil
}

// filtered is a generator of the items that pass.
func (r *render) filtered(value any, pass func(any) (bool, error)) *generator {
	return r.lazy(func() (iterator, error) {
		next, err := r.iterate(value)
		if err != nil {
			return nil, err
		}
		return func() (any, bool, error) {
			for {
				item, ok, err := next()
				if err != nil || !ok {
					return nil, false, err
				}
				if err := r.step(1); err != nil {
					return nil, false, err
				}
				if ok, err = pass(item); err != nil || ok {
					return item, ok, err
				}
			}
		}, nil
	})
}

// filterExtreme is min and max.
func filterExtreme(name string) filter {
	op := "<"
	if name == "max" {
		op = ">"
	}
	return func(r *render, value any, a args) (any, error) {
		got, err := a.bind(name, 0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		get := r.attrGetter(got[1], missing, casePost(got[0]))
		items, err := r.items(value)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &undefined{reason: "No aggregated item, sequence was empty."}, nil
		}
		keys, err := keysOf(items, get)
		if err != nil {
			return nil, err
		}
		best := 0
		for i := 1; i < len(items); i++ {
			better, err := r.compare(op, keys[i], keys[best])
			if err != nil {
				return nil, err
			}
			if better {
				best = i
			}
		}
		return items[best], nil
	}
}

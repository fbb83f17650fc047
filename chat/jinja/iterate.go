package jinja

import "unicode/utf8"

// iterator gives the next item; false when there is none.
type iterator func() (any, bool, error)

// generator is a lazy sequence, as filters such as map give. It can be gone through once; it is always true, and has
// neither a length nor items.
type generator struct {
	kind string // the type's name in Python
	next iterator
}

func sliceIterator(items []any) iterator {
	i := 0
	return func() (any, bool, error) {
		if i == len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, nil
	}
}

func runeIterator(s string) iterator {
	return func() (any, bool, error) {
		if s == "" {
			return nil, false, nil
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true, nil
	}
}

// countIterator gives at(0), at(1), … at(n-1).
func countIterator(n int, at func(int) any) iterator {
	i := 0
	return func() (any, bool, error) {
		if i == n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, nil
	}
}

// iterate is iter(v).
func (r *render) iterate(v any) (iterator, error) {
	switch v := v.(type) {
	case *List:
		return sliceIterator(v.items), nil
	case *Tuple:
		return sliceIterator(v.items), nil
	case *Map:
		return sliceIterator(v.keys), nil
	case string:
		return runeIterator(v), nil
	case Markup:
		return runeIterator(string(v)), nil
	case *generator:
		return v.next, nil
	case *rangeValue:
		return countIterator(v.length(), v.at), nil
	case *dictView:
		return countIterator(v.m.Len(), v.at), nil
	case *undefined:
		return sliceIterator(nil), nil
	case *loopState:
		return func() (any, bool, error) {
			item, ok, err := v.advance()
			return &Tuple{items: []any{item, v}}, ok, err
		}, nil
	}
	return nil, fail("'%s' object is not iterable", typeName(v))
}

// collect makes a slice of all that an iterator gives.
func (r *render) collect(next iterator) ([]any, error) {
	var items []any
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return items, err
		}
		if err := r.grow(slotBytes); err != nil {
			return nil, err
		}
		if err := r.step(1); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

// items is list(v), as a slice that must not be changed.
func (r *render) items(v any) ([]any, error) {
	switch v := v.(type) {
	case *List:
		return v.items, r.step(len(v.items))
	case *Tuple:
		return v.items, r.step(len(v.items))
	}
	next, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	return r.collect(next)
}

// reversed is reversed(v): ok is false when v has no order that can be reversed.
func (r *render) reversed(v any) (items iterator, ok bool, err error) {
	switch v.(type) {
	case *List, *Tuple, *Map, string, Markup, *rangeValue, *dictView, *undefined:
		list, err := r.items(v)
		n := len(list)
		return countIterator(n, func(i int) any { return list[n-1-i] }), true, err
	}
	return nil, false, nil
}

func (d *dictView) at(i int) any {
	switch d.kind {
	case "keys":
		return d.m.keys[i]
	case "values":
		return d.m.values[i]
	}
	return &Tuple{items: []any{d.m.keys[i], d.m.values[i]}}
}

// rangeValue is range(from, to, step).
type rangeValue struct{ from, to, step int64 }

func (v *rangeValue) length() int {
	switch {
	case v.step > 0 && v.from < v.to:
		return int((uint64(v.to-1)-uint64(v.from))/uint64(v.step)) + 1
	case v.step < 0 && v.from > v.to:
		return int((uint64(v.from-1)-uint64(v.to))/(-uint64(v.step))) + 1
	}
	return 0
}

func (v *rangeValue) at(i int) any { return v.from + int64(i)*v.step }

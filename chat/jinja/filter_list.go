package jinja

import "sort"

func filterFirst(r *render, value any, a args) (any, error) {
	if _, err := a.bind("first", 0); err != nil {
		return nil, err
	}
	next, err := r.iterate(value)
	if err != nil {
		return nil, err
	}
	return firstOf(next, "No first item, sequence was empty.")
}

func firstOf(next iterator, otherwise string) (any, error) {
	item, ok, err := next()
	if err == nil && !ok {
		item = &undefined{reason: otherwise}
	}
	return item, err
}

func filterLast(r *render, value any, a args) (any, error) {
	if _, err := a.bind("last", 0); err != nil {
		return nil, err
	}
	next, ok, err := r.reversed(value)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fail("'%s' object is not reversible", typeName(value))
	}
	return firstOf(next, "No last item, sequence was empty.")
}

func filterReverse(r *render, value any, a args) (any, error) {
	if _, err := a.bind("reverse", 0); err != nil {
		return nil, err
	}
	if s, ok := text(value); ok {
		runes := []rune(s)
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		return like(value, string(runes)), r.grow(len(s))
	}
	next, ok, err := r.reversed(value)
	if err != nil {
		return nil, err
	}
	if ok {
		kind := "reversed"
		if _, isList := value.(*List); isList {
			kind = "list_reverseiterator"
		}
		return &generator{kind, next}, nil
	}
	items, err := r.items(value)
	if err != nil {
		return nil, fail("argument must be iterable")
	}
	out := make([]any, len(items))
	for i, item := range items {
		out[len(items)-1-i] = item
	}
	return &List{out}, nil
}

// sortBy sorts items stably by their keys, as sorted does.
func (r *render) sortBy(items, keys []any, reverse bool) ([]any, error) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	sort.SliceStable(order, func(i, j int) bool {
		if failed != nil {
			return false
		}
		a, b := keys[order[i]], keys[order[j]]
		if reverse {
			a, b = b, a
		}
		var less bool
		if less, failed = r.compare("<", a, b); failed == nil {
			failed = r.step(1)
		}
		return less && failed == nil
	})
	if err := r.grow(slotBytes * len(items)); err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, j := range order {
		out[i] = items[j]
	}
	return out, failed
}

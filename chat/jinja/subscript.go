package jinja

import (
	"math/big"
	"unicode/utf8"
)

// subscript is object[key]; found is false where Python raises a TypeError or a LookupError.
func (r *render) subscript(object, key any) (v any, found bool, err error) {
	var n int
	switch o := object.(type) {
	case *Map:
		hash, ok := hashKey(key)
		if !ok {
			return nil, false, nil
		}
		if i := o.find(hash); i >= 0 {
			return o.values[i], true, nil
		}
		return nil, false, nil
	case *undefined:
		return nil, false, o.fail()
	case *List:
		n = len(o.items)
	case *Tuple:
		n = len(o.items)
	case *rangeValue:
		n = o.length()
	case string:
		n = runeCount(o)
	case Markup:
		n = runeCount(string(o))
	default:
		return nil, false, nil
	}
	i, ok := smallInt(key)
	if i < 0 {
		i += int64(n)
	}
	if !ok || i < 0 || i >= int64(n) {
		return nil, false, nil
	}
	return elementAt(object, int(i)), true, nil
}

func elementAt(object any, i int) any {
	switch o := object.(type) {
	case *List:
		return o.items[i]
	case *Tuple:
		return o.items[i]
	case *rangeValue:
		return o.at(i)
	case Markup:
		return Markup(runeSlice(string(o), i, i+1))
	}
	return runeSlice(object.(string), i, i+1)
}

func (e *sliceExpr) eval(r *render, f *frame) (any, error) {
	object, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	bounds := [3]any{}
	for i, part := range []expr{e.from, e.to, e.step} {
		if part != nil {
			if bounds[i], err = part.eval(r, f); err != nil {
				return nil, err
			}
		}
	}
	return r.slice(object, bounds)
}

// slice is object[from:to:step].
func (r *render) slice(object any, bounds [3]any) (any, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.fail()
	}
	n, ok, err := r.length(object)
	if err != nil {
		return nil, err
	}
	switch object.(type) {
	case *Map, *dictView, *loopState:
		ok = false
	}
	if !ok {
		return nil, fail("'%s' object cannot be sliced", typeName(object))
	}
	from, to, step, err := sliceBounds(bounds, n)
	if err != nil {
		return nil, err
	}
	count := (&rangeValue{int64(from), int64(to), int64(step)}).length()
	switch o := object.(type) {
	case string:
		return r.sliceText(o, from, count, step)
	case Markup:
		s, err := r.sliceText(string(o), from, count, step)
		return Markup(s), err
	case *rangeValue:
		return &rangeValue{o.from + int64(from)*o.step, o.from + int64(to)*o.step, o.step * int64(step)}, nil
	case *List:
		items, err := r.sliceItems(o.items, from, count, step)
		return &List{items}, err
	}
	items, err := r.sliceItems(object.(*Tuple).items, from, count, step)
	return &Tuple{items: items}, err
}

// sliceBounds turns the bounds of a slice of n items into those of a range of indices.
func sliceBounds(bounds [3]any, n int) (from, to, step int, err error) {
	limit := big.NewInt(int64(n) + 1)
	clamp := func(v any, missing int) (int, error) {
		if v == nil {
			return missing, nil
		}
		i, ok := bigInt(v)
		if u, undef := v.(*undefined); undef {
			return 0, u.fail()
		}
		if !ok {
			return 0, fail("slice indices must be integers or None")
		}
		if i.CmpAbs(limit) > 0 {
			return (n + 1) * i.Sign(), nil
		}
		return int(i.Int64()), nil
	}
	if step, err = clamp(bounds[2], 1); err != nil {
		return 0, 0, 0, err
	}
	if step == 0 {
		return 0, 0, 0, fail("slice step cannot be zero")
	}
	low, high := 0, n // where from and to may lie
	first, last := 0, n
	if step < 0 {
		low, high = -1, n-1
		first, last = n-1, -1-n
	}
	from, err = clamp(bounds[0], first)
	if err != nil {
		return 0, 0, 0, err
	}
	to, err = clamp(bounds[1], last)
	if from < 0 {
		from += n
	}
	if to < 0 {
		to += n
	}
	return min(max(from, low), high), min(max(to, low), high), step, err
}

func (r *render) sliceItems(items []any, from, count, step int) ([]any, error) {
	if err := r.grow(slotBytes * count); err != nil {
		return nil, err
	}
	out := make([]any, count)
	for i := range out {
		out[i] = items[from+i*step]
	}
	return out, nil
}

func (r *render) sliceText(s string, from, count, step int) (string, error) {
	if err := r.step(len(s) >> 8); err != nil {
		return "", err
	}
	if step == 1 {
		return runeSlice(s, from, from+count), nil
	}
	if err := r.grow(utf8.UTFMax * count); err != nil {
		return "", err
	}
	runes := []rune(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = runes[from+i*step]
	}
	return string(out), nil
}

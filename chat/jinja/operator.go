package jinja

import "strings"

// binary computes a op b for one of + - * / // % **.
func (r *render) binary(op string, a, b any) (any, error) {
	if isNumber(a) && isNumber(b) {
		return arithmetic(op, a, b)
	}
	if _, ok := text(a); ok && op == "%" {
		return nil, failKind(Unsupported, "Ridge's Jinja does not format text with %%; join the parts with ~")
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.fail()
		}
	}
	var v any
	var ok bool
	var err error
	switch op {
	case "+":
		v, ok, err = r.add(a, b)
	case "*":
		if v, ok, err = r.repeat(a, b); !ok && err == nil {
			v, ok, err = r.repeat(b, a)
		}
	}
	if ok || err != nil {
		return v, err
	}
	if _, isText := text(a); isText && op == "+" {
		return nil, fail("can only concatenate str (not \"%s\") to str", typeName(b))
	}
	return nil, fail("unsupported operand types for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

func isMarkup(v any) bool {
	_, ok := v.(Markup)
	return ok
}

// add joins two texts, two lists or two tuples.
func (r *render) add(a, b any) (any, bool, error) {
	x, aText := text(a)
	y, bText := text(b)
	switch {
	case isMarkup(a) && isMarkup(b):
		return Markup(x + y), true, r.grow(len(x) + len(y))
	case isMarkup(a) && bText:
		y = escapeHTML(y)
		return Markup(x + y), true, r.grow(len(x) + len(y))
	case aText && isMarkup(b):
		x = escapeHTML(x)
		return Markup(x + y), true, r.grow(len(x) + len(y))
	case aText && bText:
		if err := r.grow(len(x) + len(y)); err != nil {
			return nil, false, err
		}
		return x + y, true, nil
	}
	switch a := a.(type) {
	case *List:
		if b, ok := b.(*List); ok {
			items, err := r.joinItems(a.items, b.items)
			return &List{items}, true, err
		}
	case *Tuple:
		if b, ok := b.(*Tuple); ok {
			items, err := r.joinItems(a.items, b.items)
			return &Tuple{items: items}, true, err
		}
	}
	return nil, false, nil
}

func (r *render) joinItems(a, b []any) ([]any, error) {
	if err := r.grow(slotBytes * (len(a) + len(b))); err != nil {
		return nil, err
	}
	return append(append(make([]any, 0, len(a)+len(b)), a...), b...), nil
}

// repeat is sequence * times.
func (r *render) repeat(sequence, times any) (any, bool, error) {
	n, ok := bigInt(times)
	if !ok {
		return nil, false, nil
	}
	count := r.limits.Memory // more than can be made, unless the sequence is empty
	if n.IsInt64() {
		count = int(min(max(n.Int64(), 0), int64(count)))
	} else if n.Sign() < 0 {
		count = 0
	}
	if s, ok := text(sequence); ok {
		if err := r.growTimes(len(s), count); err != nil || s == "" {
			return sequence, true, err
		}
		s = strings.Repeat(s, count)
		if isMarkup(sequence) {
			return Markup(s), true, nil
		}
		return s, true, nil
	}
	var items []any
	switch s := sequence.(type) {
	case *List:
		items = s.items
	case *Tuple:
		items = s.items
	default:
		return nil, false, nil
	}
	if err := r.growTimes(slotBytes*len(items), count); err != nil {
		return nil, true, err
	}
	var out []any
	if len(items) > 0 {
		out = make([]any, 0, len(items)*count)
		for range count {
			out = append(out, items...)
		}
	}
	if _, isTuple := sequence.(*Tuple); isTuple {
		return &Tuple{items: out}, true, nil
	}
	return &List{out}, true, nil
}

package jinja

import "strings"

func (e *constExpr) eval(*render, *frame) (any, error) { return e.value, nil }

func (e *nameExpr) eval(_ *render, f *frame) (any, error) {
	v := f.get(e.ref)
	if v == missing {
		return undefinedName(e.name), nil
	}
	return v, nil
}

func (e *nsExpr) eval(*render, *frame) (any, error) {
	return nil, fail("'%s.%s' can only be assigned to", e.name.name, e.attr)
}

func (list exprs) eval(r *render, f *frame) ([]any, error) {
	if err := r.grow(slotBytes * len(list)); err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, e := range list {
		v, err := e.eval(r, f)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (e *tupleExpr) eval(r *render, f *frame) (any, error) {
	items, err := e.items.eval(r, f)
	return &Tuple{items: items}, err
}

func (e *listExpr) eval(r *render, f *frame) (any, error) {
	items, err := e.items.eval(r, f)
	return &List{items}, err
}

func (e *dictExpr) eval(r *render, f *frame) (any, error) {
	m := NewMap()
	for i := range e.keys {
		k, err := e.keys[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		if err := m.set(r, k, v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (e *condExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.test.eval(r, f)
	if err != nil {
		return nil, err
	}
	if truth(v) {
		return e.then.eval(r, f)
	}
	if e.other == nil {
		return &undefined{reason: "the inline if was false and has no else"}, nil
	}
	return e.other.eval(r, f)
}

func (e *logicExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.left.eval(r, f)
	if err != nil || truth(v) != e.and {
		return v, err
	}
	return e.right.eval(r, f)
}

func (e *notExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.operand.eval(r, f)
	return !truth(v), err
}

func (e *signExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.operand.eval(r, f)
	if err != nil {
		return nil, err
	}
	return signed(e.minus, v)
}

func (e *binaryExpr) eval(r *render, f *frame) (any, error) {
	a, err := e.left.eval(r, f)
	if err != nil {
		return nil, err
	}
	b, err := e.right.eval(r, f)
	if err != nil {
		return nil, err
	}
	return r.binary(e.op, a, b)
}

func (e *compareExpr) eval(r *render, f *frame) (any, error) {
	a, err := e.first.eval(r, f)
	for i := 0; err == nil && i < len(e.ops); i++ {
		var b any
		if b, err = e.rest[i].eval(r, f); err != nil {
			break
		}
		var holds bool
		if holds, err = r.compare(e.ops[i], a, b); err == nil && !holds {
			return false, nil
		}
		a = b
	}
	return true, err
}

func (e *concatExpr) eval(r *render, f *frame) (any, error) {
	var b strings.Builder
	for _, item := range e.items {
		v, err := item.eval(r, f)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if err := r.grow(len(s)); err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func (e *callExpr) eval(r *render, f *frame) (any, error) {
	callee, err := e.callee.eval(r, f)
	if err != nil {
		return nil, at(e.line, err)
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, at(e.line, err)
	}
	v, err := r.callValue(callee, a)
	return v, at(e.line, err)
}

func (e *filterExpr) eval(r *render, f *frame) (any, error) { return e.apply(r, f, "") }

// apply evaluates the filter; captured is what the first filter of a block is applied to.
func (e *filterExpr) apply(r *render, f *frame, captured string) (any, error) {
	var operand any = captured
	var err error
	switch below := e.operand.(type) {
	case nil:
	case *filterExpr:
		operand, err = below.apply(r, f, captured)
	default:
		operand, err = below.eval(r, f)
	}
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, at(e.line, err)
	}
	if e.fn == nil {
		return nil, at(e.line, fail("no filter named '%s'", e.name))
	}
	if err := r.step(1); err != nil {
		return nil, err
	}
	v, err := e.fn(r, operand, a)
	return v, at(e.line, err)
}

func (e *testExpr) eval(r *render, f *frame) (any, error) {
	operand, err := e.operand.eval(r, f)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, at(e.line, err)
	}
	if e.fn == nil {
		return nil, at(e.line, fail("no test named '%s'", e.name))
	}
	v, err := e.fn(r, operand, a)
	return v, at(e.line, err)
}

func (e *attrExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	return r.attr(v, e.name)
}

func (e *itemExpr) eval(r *render, f *frame) (any, error) {
	v, err := e.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	k, err := e.key.eval(r, f)
	if err != nil {
		return nil, err
	}
	return r.item(v, k)
}

package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// compare evaluates a op b for a comparison operator.
func (r *render) compare(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		same, err := r.equal(a, b)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "notin":
		found, err := r.contains(b, a)
		return !found, err
	}
	order, comparable, err := r.order(op, a, b, 0)
	if err != nil || !comparable {
		return false, err
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// equal is a == b.
func (r *render) equal(a, b any) (bool, error) { return r.equalAt(a, b, 0) }

func (r *render) equalAt(a, b any, depth int) (bool, error) {
	if depth > maxData {
		return false, failKind(Limit, "values nest too deep to be compared")
	}
	if x, ok := text(a); ok {
		y, isText := text(b)
		return isText && x == y, nil
	}
	if isNumber(a) {
		if !isNumber(b) {
			return false, nil
		}
		c, comparable := compareNumbers(a, b)
		return comparable && c == 0, nil
	}
	if a == b { // the same object
		return true, nil
	}
	switch x := a.(type) {
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *List:
		if y, ok := b.(*List); ok {
			return r.equalItems(x.items, y.items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return r.equalItems(x.items, y.items, depth)
		}
	case *Map:
		if y, ok := b.(*Map); ok {
			return r.equalMaps(x, y, depth)
		}
	case *rangeValue:
		if y, ok := b.(*rangeValue); ok {
			n := x.length()
			return n == y.length() && (n == 0 || x.from == y.from && (n == 1 || x.step == y.step)), nil
		}
	case *dictView:
		if y, ok := b.(*dictView); ok && x.kind != "values" && y.kind == x.kind {
			return r.equalViews(x, y)
		}
	}
	return false, nil
}

func (r *render) equalItems(a, b []any, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	if err := r.step(1 + len(a)); err != nil {
		return false, err
	}
	for i := range a {
		same, err := r.equalAt(a[i], b[i], depth+1)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalMaps(a, b *Map, depth int) (bool, error) {
	if a.Len() != b.Len() {
		return false, nil
	}
	if err := r.step(1 + a.Len()); err != nil {
		return false, err
	}
	for i, k := range a.keys {
		h, _ := hashKey(k)
		j := b.find(h)
		if j < 0 {
			return false, nil
		}
		same, err := r.equalAt(a.values[i], b.values[j], depth+1)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalViews(a, b *dictView) (bool, error) {
	if a.kind == "items" {
		return r.equal(a.m, b.m)
	}
	for _, k := range a.m.keys {
		if h, _ := hashKey(k); b.m.find(h) < 0 {
			return false, nil
		}
	}
	return a.m.Len() == b.m.Len(), r.step(a.m.Len())
}

// compareNumbers compares two numbers exactly; comparable is false when one is NaN.
func compareNumbers(a, b any) (order int, comparable bool) {
	if x, ok := smallInt(a); ok {
		if y, ok := smallInt(b); ok {
			return cmp.Compare(x, y), true
		}
	}
	x, xFloat := a.(float64)
	y, yFloat := b.(float64)
	switch {
	case xFloat && math.IsNaN(x) || yFloat && math.IsNaN(y):
		return 0, false
	case xFloat && yFloat:
		return cmp.Compare(x, y), true
	}
	return bigFloat(a).Cmp(bigFloat(b)), true
}

// bigFloat is a number, not NaN, as it is.
func bigFloat(v any) *big.Float {
	if f, ok := v.(float64); ok {
		return big.NewFloat(f)
	}
	i, _ := bigInt(v)
	return new(big.Float).SetInt(i)
}

// order compares two values that have an order; op is for the error of two that have none.
func (r *render) order(op string, a, b any, depth int) (order int, comparable bool, err error) {
	if isNumber(a) && isNumber(b) {
		order, comparable = compareNumbers(a, b)
		return order, comparable, nil
	}
	if x, ok := text(a); ok {
		if y, ok := text(b); ok {
			return strings.Compare(x, y), true, nil // the order of UTF-8 is that of code points
		}
	}
	switch x := a.(type) {
	case *List:
		if y, ok := b.(*List); ok {
			return r.orderItems(op, x.items, y.items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return r.orderItems(op, x.items, y.items, depth)
		}
	case *undefined:
		return 0, false, x.fail()
	}
	if u, ok := b.(*undefined); ok {
		return 0, false, u.fail()
	}
	return 0, false, fail("'%s' is not supported between '%s' and '%s'", op, typeName(a), typeName(b))
}

func (r *render) orderItems(op string, a, b []any, depth int) (int, bool, error) {
	if depth > maxData {
		return 0, false, failKind(Limit, "values nest too deep to be compared")
	}
	for i := range min(len(a), len(b)) {
		if err := r.step(1); err != nil {
			return 0, false, err
		}
		same, err := r.equalAt(a[i], b[i], depth+1)
		if err != nil {
			return 0, false, err
		}
		if !same {
			return r.order(op, a[i], b[i], depth+1)
		}
	}
	return cmp.Compare(len(a), len(b)), true, nil
}

// contains is item in container.
func (r *render) contains(container, item any) (bool, error) {
	if s, ok := text(container); ok {
		sub, ok := text(item)
		if !ok {
			return false, fail("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		return strings.Contains(s, sub), r.step(len(s) >> 12)
	}
	var m *Map
	switch c := container.(type) {
	case *Map:
		m = c
	case *dictView:
		if c.kind == "keys" {
			m = c.m
		}
	case *rangeValue:
		if i, ok := smallInt(item); ok {
			n := c.length()
			return n > 0 && (i-c.from)%c.step == 0 && (i-c.from)/c.step >= 0 && (i-c.from)/c.step < int64(n), nil
		}
	}
	if m != nil {
		hash, ok := hashKey(item)
		if !ok {
			return false, fail("unhashable type: '%s'", typeName(item))
		}
		return m.find(hash) >= 0, nil
	}
	next, err := r.iterate(container)
	if err != nil {
		return false, fail("argument of type '%s' is not iterable", typeName(container))
	}
	for {
		v, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		if err := r.step(1); err != nil {
			return false, err
		}
		if same, err := r.equal(v, item); err != nil || same {
			return same, err
		}
	}
}

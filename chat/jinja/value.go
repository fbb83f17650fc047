package jinja

import "math/big"

// A value of the language is one of these Go values:
//
//	nil                  None
//	bool, float64        bool, float
//	int64, *big.Int      int; the latter only for what int64 cannot hold
//	string               str
//	Markup               str that is HTML already: what |safe and |escape give
//	*List, *Tuple, *Map  list, tuple, dict
//
// These are what a render context is made of. While rendering there are also: *undefined, *generator, *rangeValue,
// *dictView, *namespace, *loopState, *macro, *boundMethod and *builtin.

// Markup is text that counts as HTML. Adding a plain string to it escapes that string.
type Markup string

// List is a list.
type List struct{ items []any }

// NewList makes a list of values.
func NewList(items ...any) *List { return &List{items} }

// Append adds values at the end. Templates cannot: a list that a template sees does not change.
func (l *List) Append(items ...any) { l.items = append(l.items, items...) }

// Items are the values. They must not be changed.
func (l *List) Items() []any { return l.items }

// Tuple is a tuple.
type Tuple struct{ items []any }

// undefined is the value of what is not there: it prints as nothing, is false, and fails when anything else is done with
// it. The reason is its error's sentence.
type undefined struct {
	reason string
	kind   Kind
}

func undefinedName(name string) *undefined {
	return &undefined{reason: "'" + name + "' is undefined"}
}

func (u *undefined) fail() error { return failKind(u.kind, "%s", u.reason) }

// dictView is d.keys(), d.values() or d.items().
type dictView struct {
	m    *Map
	kind string // "keys", "values" or "items"
}

// namespace is the one value that templates can change.
type namespace struct{ attrs *Map }

// typeName is the name of a value's type in Python.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Markup:
		return "Markup"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Map:
		return "dict"
	case *undefined:
		return "Undefined"
	case *generator:
		return v.kind
	case *rangeValue:
		return "range"
	case *dictView:
		return "dict_" + v.kind
	case *namespace:
		return "Namespace"
	case *loopState:
		return "LoopContext"
	case *macro:
		return "Macro"
	}
	return "function"
}

// text gives the text of a str, plain or markup.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// truth is bool(v). A generator is true even when it has nothing to give.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	case *List:
		return len(v.items) > 0
	case *Tuple:
		return len(v.items) > 0
	case *Map:
		return v.Len() > 0
	case *dictView:
		return v.m.Len() > 0
	case *rangeValue:
		return v.length() > 0
	}
	return true
}

// length is len(v); ok is false when v has none.
func (r *render) length(v any) (n int, ok bool, err error) {
	switch v := v.(type) {
	case string:
		return runeCount(v), true, nil
	case Markup:
		return runeCount(string(v)), true, nil
	case *List:
		return len(v.items), true, nil
	case *Tuple:
		return len(v.items), true, nil
	case *Map:
		return v.Len(), true, nil
	case *dictView:
		return v.m.Len(), true, nil
	case *rangeValue:
		return v.length(), true, nil
	case *undefined:
		return 0, true, nil
	case *loopState:
		n, err := v.length(r)
		return n, true, err
	}
	return 0, false, nil
}

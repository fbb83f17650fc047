package jinja

// test is "value is name(args)".
type test func(r *render, value any, a args) (any, error)

// testNamed finds a test, or gives nil.
func testNamed(name string) test {
	switch name {
	case "defined":
		return plainTest(name, func(v any) bool { _, absent := v.(*undefined); return !absent })
	case "undefined":
		return plainTest(name, func(v any) bool { _, absent := v.(*undefined); return absent })
	case "none":
		return plainTest(name, func(v any) bool { return v == nil })
	case "boolean":
		return plainTest(name, func(v any) bool { return v == true || v == false })
	case "true":
		return plainTest(name, func(v any) bool { return v == true })
	case "false":
		return plainTest(name, func(v any) bool { return v == false })
	case "integer":
		return plainTest(name, func(v any) bool { return typeName(v) == "int" })
	case "float":
		return plainTest(name, func(v any) bool { return typeName(v) == "float" })
	case "number":
		return plainTest(name, isNumber)
	case "string":
		return plainTest(name, func(v any) bool { _, ok := text(v); return ok })
	case "escaped":
		return plainTest(name, isMarkup)
	case "mapping":
		return plainTest(name, func(v any) bool { return typeName(v) == "dict" })
	case "sequence":
		return plainTest(name, isSequence)
	case "callable":
		return plainTest(name, isCallable)
	case "iterable":
		return func(r *render, value any, a args) (any, error) {
			_, err := a.bind(name, 0)
			_, no := r.iterate(value)
			return no == nil, err
		}
	case "lower", "upper":
		return func(*render, any, args) (any, error) {
			return nil, failKind(Unsupported, "Ridge's Jinja does not have the test '%s'", name)
		}
	case "odd", "even", "divisibleby":
		return testRemainder(name)
	case "filter":
		return testBuiltin(name, func(s string) bool { return filterNamed(s) != nil })
	case "test":
		return testBuiltin(name, func(s string) bool { return testNamed(s) != nil })
	case "sameas":
		return testSameAs
	}
	if op := comparisonTest(name); op != "" {
		return func(r *render, value any, a args) (any, error) {
			got, err := a.bind(name, 1, "other/")
			if err != nil {
				return nil, err
			}
			return r.compare(op, value, got[0])
		}
	}
	return nil
}

// comparisonTest gives the operator that a test stands for.
func comparisonTest(name string) string {
	switch name {
	case "==", "eq", "equalto":
		return "=="
	case "!=", "ne":
		return "!="
	case ">", "gt", "greaterthan":
		return ">"
	case ">=", "ge":
		return ">="
	case "<", "lt", "lessthan":
		return "<"
	case "<=", "le":
		return "<="
	case "in":
		return "in"
	}
	return ""
}

func plainTest(name string, is func(any) bool) test {
	return func(_ *render, value any, a args) (any, error) {
		_, err := a.bind(name, 0)
		return is(value), err
	}
}

// isSequence: it has a length and items, as also a dict and an undefined value have.
func isSequence(v any) bool {
	switch v.(type) {
	case string, Markup, *List, *Tuple, *Map, *rangeValue, *undefined:
		return true
	}
	return false
}

func isCallable(v any) bool {
	switch v.(type) {
	case callable, *undefined:
		return true
	}
	return false
}

// testBuiltin asks whether a built-in of that name exists.
func testBuiltin(name string, exists func(string) bool) test {
	return func(_ *render, value any, a args) (any, error) {
		if _, ok := hashKey(value); !ok {
			return nil, fail("unhashable type: '%s'", typeName(value))
		}
		_, err := a.bind(name, 0)
		s, ok := text(value)
		return ok && exists(s), err
	}
}

func testRemainder(name string) test {
	return func(r *render, value any, a args) (any, error) {
		divisor, remainder := any(int64(2)), int64(0)
		switch name {
		case "odd":
			remainder = 1
		case "divisibleby":
			got, err := a.bind(name, 1, "num")
			if err != nil {
				return nil, err
			}
			divisor, a = got[0], args{}
		}
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		m, err := r.binary("%", value, divisor)
		if err != nil {
			return nil, err
		}
		return r.equal(m, remainder)
	}
}

// testSameAs is identity. Equal small values of one type are the same object; whether equal texts are is left open by
// Python, and here they are.
func testSameAs(r *render, value any, a args) (any, error) {
	got, err := a.bind("sameas", 1, "other")
	if err != nil {
		return nil, err
	}
	if _, ok := text(value); ok || isNumber(value) {
		same, err := r.equal(value, got[0])
		return same && typeName(value) == typeName(got[0]), err
	}
	return value == got[0], nil
}

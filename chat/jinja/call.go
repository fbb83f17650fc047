package jinja

import "strings"

// args are the values given to a call.
type args struct {
	pos []any
	kw  []keyword
}

type keyword struct {
	name  string
	value any
}

// callable is what can stand before "(".
type callable interface {
	call(r *render, a args) (any, error)
}

// builtin is a global function.
type builtin struct {
	name string
	fn   func(r *render, a args) (any, error)
}

func (b *builtin) call(r *render, a args) (any, error) { return b.fn(r, a) }

// method is a method of a type: recv is the object it is called on.
type method func(r *render, recv any, a args) (any, error)

// boundMethod is object.name for a method.
type boundMethod struct {
	recv any
	name string
	fn   method
}

func (m *boundMethod) call(r *render, a args) (any, error) { return m.fn(r, m.recv, a) }

func (r *render) callValue(v any, a args) (any, error) {
	if err := r.step(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case callable:
		return v.call(r, a)
	case *undefined:
		return nil, v.fail()
	}
	return nil, fail("'%s' object is not callable", typeName(v))
}

func (a *args) take(name string) (any, bool) {
	for i, k := range a.kw {
		if k.name == name {
			a.kw = append(a.kw[:i:i], a.kw[i+1:]...)
			return k.value, true
		}
	}
	return nil, false
}

func (a *args) noKeywords(fn string) error {
	if len(a.kw) > 0 {
		return fail("%s() takes no keyword arguments", fn)
	}
	return nil
}

// bind matches the arguments with parameters, of which the first required ones must be given. A parameter whose name
// ends in "/" cannot be given by name. What is not given is missing.
func (a args) bind(fn string, required int, params ...string) ([]any, error) {
	if len(a.pos) > len(params) {
		return nil, fail("%s() takes at most %d arguments (%d given)", fn, len(params), len(a.pos))
	}
	got := make([]any, len(params))
	copy(got, a.pos)
	for i := len(a.pos); i < len(params); i++ {
		got[i] = missing
	}
keywords:
	for _, k := range a.kw {
		for i, p := range params {
			if p != k.name {
				continue
			}
			if got[i] != missing {
				return nil, fail("%s() got multiple values for argument '%s'", fn, k.name)
			}
			got[i] = k.value
			continue keywords
		}
		return nil, fail("%s() got an unexpected keyword argument '%s'", fn, k.name)
	}
	for i := range required {
		if got[i] == missing {
			return nil, fail("%s() needs the argument '%s'", fn, strings.TrimSuffix(params[i], "/"))
		}
	}
	return got, nil
}

// eval evaluates the arguments of a call.
func (a *callArgs) eval(r *render, f *frame) (args, error) {
	var out args
	for _, e := range a.pos {
		v, err := e.eval(r, f)
		if err != nil {
			return out, err
		}
		out.pos = append(out.pos, v)
	}
	for i, e := range a.kwValues {
		v, err := e.eval(r, f)
		if err != nil {
			return out, err
		}
		out.kw = append(out.kw, keyword{a.kwNames[i], v})
	}
	if a.star != nil {
		v, err := a.star.eval(r, f)
		if err != nil {
			return out, err
		}
		items, err := r.items(v)
		if err != nil {
			return out, fail("argument after * must be an iterable, not %s", typeName(v))
		}
		out.pos = append(out.pos, items...)
	}
	if a.starStar != nil {
		v, err := a.starStar.eval(r, f)
		if err != nil {
			return out, err
		}
		return out, out.spread(v)
	}
	return out, nil
}

// spread adds the entries of a mapping as named arguments.
func (a *args) spread(v any) error {
	m, ok := v.(*Map)
	if !ok {
		return fail("argument after ** must be a mapping, not %s", typeName(v))
	}
	for i := range m.Len() {
		key, value := m.At(i)
		name, ok := text(key)
		if !ok {
			return fail("keywords must be strings")
		}
		for _, k := range a.kw {
			if k.name == name {
				return fail("got multiple values for keyword argument '%s'", name)
			}
		}
		a.kw = append(a.kw, keyword{name, value})
	}
	return nil
}

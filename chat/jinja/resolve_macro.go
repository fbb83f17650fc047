package jinja

// macro resolves a macro or the body of a call block: a function whose parameters are followed by the special variables
// caller, kwargs and varargs, as far as its body reads them.
func (p place) macro(m *macroDef, line int) error {
	m.fn = p.newFunction()
	q := p.inner(m.fn)
	q.sym.visitAll(m.children())
	used := mentions(m.body.children(), "caller", "kwargs", "varargs")
	for i, arg := range m.params {
		switch arg.name {
		case "caller":
			if used["caller"] && i < len(m.params)-len(m.defaults) {
				return &Error{Kind: Syntax, Line: line, Message: "the special parameter 'caller' must be left out of the parameters or be given a default"}
			}
			m.usesCaller = used["caller"]
			used["caller"] = false
		case "kwargs", "varargs":
			used[arg.name] = false
		}
	}
	special := func(name string) *ref {
		if !used[name] {
			return nil
		}
		return q.refTo(q.sym.declareParameter(name))
	}
	m.caller, m.kwargs, m.varargs = special("caller"), special("kwargs"), special("varargs")
	m.usesCaller = m.usesCaller || m.caller != nil
	q.sym.visitAll(m.children())
	m.scope = q.scope()
	for _, arg := range m.params {
		arg.ref = *q.refTo(q.sym.find(arg.name))
	}
	if err := q.exprs(m.defaults); err != nil {
		return err
	}
	return q.body(m.body)
}

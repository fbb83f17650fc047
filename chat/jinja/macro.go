package jinja

// macro is the value of a macro, or of "caller" in a macro called by a call block.
type macro struct {
	def *macroDef
	env *frame // around its definition
}

func (s *macroStmt) exec(r *render, f *frame) (control, error) {
	f.slots[s.target.ref.slot] = &macro{&s.macroDef, f}
	return goOn, nil
}

func (s *callStmt) exec(r *render, f *frame) (control, error) {
	caller := &macro{&s.macroDef, f}
	if s.call == nil {
		v, err := caller.call(r, args{})
		if err == nil {
			err = r.print(v)
		}
		return goOn, at(s.line, err)
	}
	callee, err := s.call.callee.eval(r, f)
	if err != nil {
		return goOn, at(s.line, err)
	}
	a, err := s.call.args.eval(r, f)
	if err == nil {
		a.kw = append(a.kw, keyword{"caller", caller})
		var v any
		if v, err = r.callValue(callee, a); err == nil {
			err = r.print(v)
		}
	}
	return goOn, at(s.line, err)
}

// call binds the arguments as upstream's Macro does and gives what the macro prints.
func (m *macro) call(r *render, a args) (any, error) {
	d := m.def
	f := newFrame(d.fn, m.env)
	given := min(len(a.pos), len(d.params))
	foundCaller := false
	for i, p := range d.params {
		v := missing
		if i < given {
			v = a.pos[i]
		} else if named, ok := a.take(p.name); ok {
			v = named
		}
		foundCaller = foundCaller || p.name == "caller"
		f.slots[p.ref.slot] = v
	}
	if d.usesCaller && !foundCaller {
		v, ok := a.take("caller")
		if !ok || v == nil {
			v = &undefined{reason: "no caller is defined: the macro was not called by a call block"}
		}
		f.slots[d.caller.slot] = v
	}
	if d.kwargs != nil {
		rest := NewMap()
		for _, k := range a.kw {
			rest.Set(k.name, k.value)
		}
		f.slots[d.kwargs.slot] = rest
	} else if len(a.kw) > 0 {
		return nil, fail("the macro '%s' takes no argument named '%s'", d.name, a.kw[0].name)
	}
	if d.varargs != nil {
		f.slots[d.varargs.slot] = &Tuple{items: a.pos[given:]}
	} else if len(a.pos) > len(d.params) {
		return nil, fail("the macro '%s' takes not more than %d arguments, and %d were given", d.name, len(d.params), len(a.pos))
	}
	return m.run(r, f)
}

func (m *macro) run(r *render, f *frame) (any, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	d := m.def
	d.scope.enter(f)
	for i, p := range d.params {
		if f.slots[p.ref.slot] != missing {
			continue
		}
		j := i - (len(d.params) - len(d.defaults))
		if j < 0 {
			f.slots[p.ref.slot] = &undefined{reason: "the parameter '" + p.name + "' was not provided"}
			continue
		}
		v, err := d.defaults[j].eval(r, f)
		if err != nil {
			return nil, err
		}
		f.slots[p.ref.slot] = v
	}
	text, _, err := r.capture(d.body, f)
	return text, err
}

// attribute gives what upstream's Macro objects show of themselves.
func (m *macro) attribute(name string) (any, bool) {
	switch name {
	case "name":
		if m.def.name == "" {
			return nil, true
		}
		return m.def.name, true
	case "arguments":
		names := &Tuple{}
		for _, p := range m.def.params {
			names.items = append(names.items, p.name)
		}
		return names, true
	case "catch_kwargs":
		return m.def.kwargs != nil, true
	case "catch_varargs":
		return m.def.varargs != nil, true
	case "caller":
		return m.def.usesCaller, true
	}
	return nil, false
}

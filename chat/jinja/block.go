package jinja

// blockTable is the value of "self": its items are the template's blocks.
type blockTable struct{ r *render }

func (s *blockStmt) exec(r *render, f *frame) (control, error) {
	if s.required {
		return goOn, at(s.line, fail("the block '%s' is required, and nothing defines it", s.name))
	}
	outer := r.context
	if s.scoped {
		vars := NewMap()
		for _, e := range s.visible {
			if v := f.get(e.ref); v != missing {
				vars.Set(e.name, v)
			}
		}
		r.context = &contextVars{given: vars, outer: outer}
	}
	err := s.run(r)
	r.context = outer
	return goOn, err
}

func (s *blockStmt) run(r *render) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	f := newFrame(s.fn, nil)
	if s.self != nil {
		f.slots[s.self.slot] = &blockTable{r}
	}
	if s.superName != nil {
		f.slots[s.superName.slot] = &undefined{reason: "there is no parent block called '" + s.name + "'"}
	}
	s.scope.enter(r, f)
	_, err := r.exec(s.body, f)
	return at(s.line, err)
}

// call is self.name(): the block once more, as text.
func (s *blockStmt) call(r *render, a args) (any, error) {
	if _, err := a.bind(s.name, 0); err != nil {
		return nil, err
	}
	return r.captured(func() error { return s.run(r) })
}

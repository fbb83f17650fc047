package jinja

// blockTable is the value of "self": its items are the template's blocks.
type blockTable struct {
	t       *Template
	context *contextVars
}

// blockRef is self.name: calling it renders the block once more.
type blockRef struct {
	block   *blockStmt
	context *contextVars
}

func (s *blockStmt) exec(r *render, f *frame) (control, error) {
	if s.required {
		return goOn, at(s.line, fail("the block '%s' is required, and nothing defines it", s.name))
	}
	context := f.context
	if s.scoped {
		vars := NewMap()
		for _, e := range s.visible {
			if v := f.get(e.ref); v != missing {
				vars.Set(e.name, v)
			}
		}
		context = &contextVars{given: vars, outer: context}
	}
	return goOn, s.run(r, context)
}

func (s *blockStmt) run(r *render, context *contextVars) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	f := newFrame(s.fn, nil)
	f.context = context
	if s.self != nil {
		f.slots[s.self.slot] = &blockTable{r.t, context}
	}
	if s.superName != nil {
		f.slots[s.superName.slot] = &undefined{reason: "there is no parent block called '" + s.name + "'"}
	}
	s.scope.enter(f)
	_, err := r.exec(s.body, f)
	return at(s.line, err)
}

func (b *blockRef) call(r *render, a args) (any, error) {
	if _, err := a.bind(b.block.name, 0); err != nil {
		return nil, err
	}
	return r.captured(func() error { return b.block.run(r, b.context) })
}

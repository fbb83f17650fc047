package jinja

// exec runs statements until one ends otherwise than by going on.
func (r *render) exec(b body, f *frame) (control, error) {
	for _, s := range b {
		if err := r.step(1); err != nil {
			return goOn, err
		}
		if c, err := s.exec(r, f); err != nil || c != goOn {
			return c, err
		}
	}
	return goOn, nil
}

func (s *textStmt) exec(r *render, _ *frame) (control, error) { return goOn, r.write(s.text) }

func (s *printStmt) exec(r *render, f *frame) (control, error) {
	v, err := s.value.eval(r, f)
	if err == nil {
		err = r.print(v)
	}
	return goOn, at(s.line, err)
}

// print writes str(v).
func (r *render) print(v any) error {
	s, err := r.str(v)
	if err != nil {
		return err
	}
	return r.write(s)
}

func (s *ifStmt) exec(r *render, f *frame) (control, error) {
	v, err := s.test.eval(r, f)
	if err != nil {
		return goOn, at(s.line, err)
	}
	if truth(v) {
		return r.exec(s.body, f)
	}
	for _, e := range s.elifs {
		v, err := e.test.eval(r, f)
		if err != nil {
			return goOn, at(e.line, err)
		}
		if truth(v) {
			return r.exec(e.body, f)
		}
	}
	return r.exec(s.orElse, f)
}

func (s *setStmt) exec(r *render, f *frame) (control, error) {
	if err := s.assign.checkNamespaces(f); err != nil {
		return goOn, at(s.line, err)
	}
	v, err := s.value.eval(r, f)
	if err == nil {
		err = s.assign.assign(r, f, v)
	}
	return goOn, at(s.line, err)
}

func (s *setBlockStmt) exec(r *render, f *frame) (control, error) {
	s.scope.enter(f)
	text, c, err := r.capture(s.body, f)
	if err != nil || c != goOn {
		return c, at(s.line, err)
	}
	var v any = text
	if s.filter != nil {
		v, err = s.filter.apply(r, f, text)
	}
	if err == nil {
		err = s.assign.checkNamespaces(f)
	}
	if err == nil {
		err = s.assign.assign(r, f, v)
	}
	s.scope.leave(f)
	return goOn, at(s.line, err)
}

func (s *filterStmt) exec(r *render, f *frame) (control, error) {
	s.scope.enter(f)
	text, c, err := r.capture(s.body, f)
	if err != nil || c != goOn {
		return c, at(s.line, err)
	}
	v, err := s.filter.apply(r, f, text)
	if err == nil {
		err = r.print(v)
	}
	s.scope.leave(f)
	return goOn, at(s.line, err)
}

func (s *withStmt) exec(r *render, f *frame) (control, error) {
	s.scope.enter(f)
	for i := range s.assigns {
		v, err := s.values[i].eval(r, f)
		if err == nil {
			err = s.assigns[i].assign(r, f, v)
		}
		if err != nil {
			return goOn, at(s.line, err)
		}
	}
	c, err := r.exec(s.body, f)
	s.scope.leave(f)
	return c, err
}

func (s *breakStmt) exec(*render, *frame) (control, error) { return doBreak, nil }

func (s *continueStmt) exec(*render, *frame) (control, error) { return doContinue, nil }

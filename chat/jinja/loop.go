package jinja

func (s *forStmt) exec(r *render, f *frame) (control, error) {
	items, err := s.iter.eval(r, f)
	if err != nil {
		return goOn, at(s.line, err)
	}
	if !s.recursive {
		c, err := s.run(r, f, f, items, 0)
		return c, at(s.line, err)
	}
	text, err := s.recurse(r, f, items, 0)
	if err == nil {
		err = r.write(text)
	}
	return goOn, at(s.line, err)
}

// recurse runs a recursive loop in an activation of its own and gives what it prints.
func (s *forStmt) recurse(r *render, outer *frame, items any, depth int) (string, error) {
	if err := r.enter(); err != nil {
		return "", err
	}
	defer r.leave()
	return r.captured(func() error {
		_, err := s.run(r, newFrame(s.fn, outer), outer, items, depth)
		return err
	})
}

// run goes through the items. The loop's variables are in f; outer is the frame around the loop, which is f itself
// unless the loop is recursive. How the else body ends is how the loop ends.
func (s *forStmt) run(r *render, f, outer *frame, items any, depth int) (control, error) {
	next, err := r.iterate(items)
	if err != nil {
		return goOn, err
	}
	if s.test != nil {
		next = s.filtered(r, outer, next)
		items = nil // the number of items is not known beforehand
	}
	loop := &loopState{stmt: s, outer: outer, items: items, next: next, index0: -1, depth0: depth,
		after: missing, current: missing, before: missing, changedFrom: missing}
	finished := false // some item's body has run to its end: upstream's criterion for leaving out the else body
	for {
		if err := r.step(1); err != nil {
			return goOn, err
		}
		item, ok, err := loop.advance()
		if err != nil {
			return goOn, err
		}
		if !ok {
			break
		}
		if err := s.assign.assign(r, f, item); err != nil {
			return goOn, err
		}
		if s.loopVar != nil {
			f.slots[s.loopVar.slot] = loop
		}
		s.scope.enter(f)
		c, err := r.exec(s.body, f)
		if err != nil {
			return goOn, err
		}
		if c == doBreak {
			break
		}
		finished = finished || c == goOn
	}
	s.scope.leave(f)
	if finished || s.orElse == nil {
		return goOn, nil
	}
	s.elseScope.enter(f)
	c, err := r.exec(s.orElse, f)
	s.elseScope.leave(f)
	return c, err
}

// filtered gives the items that pass the loop's test, which is made when an item is wanted, not before.
func (s *forStmt) filtered(r *render, outer *frame, items iterator) iterator {
	f := newFrame(s.testFn, outer)
	s.testScope.enter(f)
	return func() (any, bool, error) {
		for {
			item, ok, err := items()
			if err != nil || !ok {
				return nil, false, err
			}
			if err := r.step(1); err != nil {
				return nil, false, err
			}
			if err := s.testAssign.assign(r, f, item); err != nil {
				return nil, false, err
			}
			pass, err := s.test.eval(r, f)
			if err != nil {
				return nil, false, err
			}
			if truth(pass) {
				return item, true, nil
			}
		}
	}
}

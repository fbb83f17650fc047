package jinja

func (p place) body(b body) error {
	for _, s := range b {
		if err := p.stmt(s); err != nil {
			return err
		}
	}
	return nil
}

func (p place) stmt(s stmt) error {
	switch s := s.(type) {
	case *printStmt:
		return p.expr(s.value)
	case *ifStmt:
		return p.conditional(s)
	case *forStmt:
		return p.forLoop(s)
	case *setStmt:
		return p.set(s)
	case *setBlockStmt:
		return p.setBlock(s)
	case *macroStmt:
		s.target.ref = *p.refTo(p.sym.find(s.name))
		return p.macro(&s.macroDef, s.line)
	case *callStmt:
		if s.call != nil {
			if err := p.expr(s.call); err != nil {
				return err
			}
		}
		return p.macro(&s.macroDef, s.line)
	case *filterStmt:
		q := p.inner(nil)
		q.sym.visitAll(s.children())
		s.scope = q.scope()
		if err := q.body(s.body); err != nil {
			return err
		}
		return q.expr(s.filter)
	case *withStmt:
		return p.with(s)
	case *breakStmt:
		return p.needLoop("break", s.line)
	case *continueStmt:
		return p.needLoop("continue", s.line)
	}
	return nil
}

func (p place) needLoop(tag string, line int) error {
	if p.loops > 0 {
		return nil
	}
	return &Error{Kind: Syntax, Line: line, Message: "'" + tag + "' stands outside a loop"}
}

func (p place) conditional(s *ifStmt) error {
	p.branch = true
	for _, part := range append([]*ifStmt{s}, s.elifs...) {
		if err := p.expr(part.test); err != nil {
			return err
		}
		if err := p.body(part.body); err != nil {
			return err
		}
	}
	return p.body(s.orElse)
}

func (p place) forLoop(s *forStmt) error {
	assignsLoop := 0
	inspect(s, func(n node) bool {
		if name, ok := n.(*nameExpr); ok && name.use == store && name.name == "loop" {
			assignsLoop = name.line
		}
		return true
	})
	if assignsLoop > 0 {
		return &Error{Kind: Syntax, Line: assignsLoop, Message: "'loop' cannot be assigned to in a loop"}
	}
	if err := p.expr(s.iter); err != nil {
		return err
	}
	if err := p.loopTest(s); err != nil {
		return err
	}
	if s.recursive {
		s.fn = p.newFunction()
	}
	if err := p.loopBody(s); err != nil {
		return err
	}
	q := p.inner(s.fn)
	q.sym.visitAll(s.orElse.children())
	s.elseScope = q.scope()
	return q.body(s.orElse)
}

// loopTest resolves the test of a loop, which is a function of its own with the loop's target as its variables.
func (p place) loopTest(s *forStmt) error {
	if s.test == nil {
		return nil
	}
	s.testFn = p.newFunction()
	q := p.inner(s.testFn)
	q.declareTarget(s.target)
	q.sym.visit(s.test)
	s.testScope = q.scope()
	var err error
	if s.testAssign, err = q.target(s.target); err != nil {
		return err
	}
	return q.expr(s.test)
}

func (p place) declareTarget(e expr) {
	inspect(e, func(n node) bool {
		if name, ok := n.(*nameExpr); ok {
			p.sym.declareParameter(name.name)
		}
		return true
	})
}

func (p place) loopBody(s *forStmt) error {
	q := p.inner(s.fn)
	q.loops++
	if s.recursive || mentions(s.body.children(), "loop")["loop"] {
		s.loopVar = q.refTo(q.sym.declareParameter("loop"))
	}
	q.declareTarget(s.target)
	q.sym.visitAll(s.body.children())
	s.scope = q.scope()
	var err error
	if s.assign, err = q.target(s.target); err != nil {
		return err
	}
	return q.body(s.body)
}

func (p place) set(s *setStmt) error {
	if err := p.expr(s.value); err != nil {
		return err
	}
	var err error
	s.assign, err = p.target(s.target)
	return err
}

func (p place) setBlock(s *setBlockStmt) error {
	q := p.inner(nil)
	q.sym.visitAll(s.body.children())
	s.scope = q.scope()
	if err := q.body(s.body); err != nil {
		return err
	}
	if s.filter != nil {
		if err := q.expr(s.filter); err != nil {
			return err
		}
	}
	var err error
	s.assign, err = p.target(s.target)
	return err
}

func (p place) with(s *withStmt) error {
	if err := p.exprs(s.values); err != nil {
		return err
	}
	q := p.inner(nil)
	q.sym.visitAll(s.targets.children())
	q.sym.visitAll(s.body.children())
	s.scope = q.scope()
	for _, e := range s.targets {
		t, err := q.target(e)
		if err != nil {
			return err
		}
		s.assigns = append(s.assigns, t)
	}
	return q.body(s.body)
}

package jinja

func (p *parser) macro(line int) (stmt, error) {
	name, err := p.targetName()
	if err != nil {
		return nil, err
	}
	s := &macroStmt{target: name, line: line}
	s.name = name.name
	if err := p.signature(&s.macroDef); err != nil {
		return nil, err
	}
	s.body, err = p.bodyTo("endmacro")
	return s, err
}

func (p *parser) callBlock(line int) (stmt, error) {
	s := &callStmt{line: line}
	if p.isOp("(") {
		if err := p.signature(&s.macroDef); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail(line, "a call block needs a call, such as {%% call name() %%}")
	}
	s.call = call
	s.body, err = p.bodyTo("endcall")
	return s, err
}

// signature parses the parameters of a macro or call block: (a, b, c=1).
func (p *parser) signature(m *macroDef) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	seen := map[string]bool{}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.targetName()
		if err != nil {
			return err
		}
		name.use = param
		if seen[name.name] {
			return p.fail(name.line, "the parameter '%s' is given twice", name.name)
		}
		seen[name.name] = true
		if p.skipOp("=") {
			value, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, value)
		} else if len(m.defaults) > 0 {
			return p.fail(name.line, "the parameter '%s' has no default and follows one that has", name.name)
		}
		m.params = append(m.params, name)
	}
	p.next()
	return nil
}

// targetName parses a name to be assigned to.
func (p *parser) targetName() (*nameExpr, error) {
	t, err := p.expect(tokName)
	if err != nil {
		return nil, err
	}
	if isConstName(t.text) {
		return nil, p.fail(t.line, "cannot assign to '%s'", t.text)
	}
	return &nameExpr{name: t.text, use: store, line: t.line}, nil
}

func isConstName(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

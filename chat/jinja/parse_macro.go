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

// otherFile parses include, import, from and extends, which parse as upstream does and fail when they are reached.
func (p *parser) otherFile(tag token) (stmt, error) {
	s := &otherFileStmt{tag: tag.text, line: tag.line}
	var err error
	if s.template, err = p.expression(); err != nil {
		return nil, err
	}
	switch tag.text {
	case "include":
		if p.isName("ignore") && p.look().is(tokName, "missing") {
			p.next()
			p.next()
		}
		p.importContext()
	case "import":
		if err := p.expectName("as"); err != nil {
			return nil, err
		}
		name, err := p.targetName()
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, name)
		p.importContext()
	case "from":
		if err := p.expectName("import"); err != nil {
			return nil, err
		}
		s.targets, err = p.importedNames()
	}
	return s, err
}

func (p *parser) importContext() bool {
	found := (p.isName("with") || p.isName("without")) && p.look().is(tokName, "context")
	if found {
		p.next()
		p.next()
	}
	return found
}

func (p *parser) importedNames() ([]*nameExpr, error) {
	var names []*nameExpr
	for {
		if len(names) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if p.importContext() {
			return names, nil
		}
		name, err := p.targetName()
		if err != nil {
			return nil, err
		}
		if name.name[0] == '_' {
			return nil, p.fail(name.line, "the name '%s' starts with an underscore and cannot be imported", name.name)
		}
		if p.skipName("as") {
			if name, err = p.targetName(); err != nil {
				return nil, err
			}
		}
		names = append(names, name)
		if p.importContext() || !p.isOp(",") {
			return names, nil
		}
	}
}

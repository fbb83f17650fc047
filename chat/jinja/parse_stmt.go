package jinja

// statement parses one tag from its name on, up to its closing, which stays the current token.
func (p *parser) statement(ends []string) (body, error) {
	t := p.cur()
	if t.kind != tokName {
		return nil, p.unexpected("the name of a tag")
	}
	p.next()
	var s stmt
	var err error
	switch t.text {
	case "for":
		s, err = p.forLoop(t.line)
	case "if":
		s, err = p.conditional(t.line)
	case "set":
		s, err = p.set(t.line)
	case "print":
		return p.print(t.line)
	case "macro":
		s, err = p.macro(t.line)
	case "call":
		s, err = p.callBlock(t.line)
	case "filter":
		s, err = p.filterBlock(t.line)
	case "with":
		s, err = p.with(t.line)
	case "generation":
		var b body
		b, err = p.bodyTo("endgeneration")
		s = &callStmt{macroDef: macroDef{body: b}, line: t.line}
	case "break":
		s = &breakStmt{t.line}
	case "continue":
		s = &continueStmt{t.line}
	case "block":
		s, err = p.block(t.line)
	case "autoescape":
		s, err = p.autoescape(t.line)
	case "include", "import", "from", "extends":
		s, err = p.otherFile(t)
	default:
		return nil, p.unknownTag(t, ends)
	}
	if err != nil {
		return nil, err
	}
	return body{s}, nil
}

func (p *parser) forLoop(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.target, err = p.assignTarget(tupleRules{end: "in"}); err != nil {
		return nil, err
	}
	if err := p.expectName("in"); err != nil {
		return nil, err
	}
	if s.iter, err = p.tuple(tupleRules{end: "recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	if s.body, err = p.body("endfor", "else"); err != nil {
		return nil, err
	}
	if p.next().text == "else" {
		s.orElse, err = p.bodyTo("endfor")
	}
	return s, err
}

func (p *parser) conditional(line int) (stmt, error) {
	result := &ifStmt{line: line}
	for part := result; ; {
		var err error
		if part.test, err = p.tuple(tupleRules{}); err != nil {
			return nil, err
		}
		if part.body, err = p.body("elif", "else", "endif"); err != nil {
			return nil, err
		}
		t := p.next()
		if t.text == "elif" {
			part = &ifStmt{line: t.line}
			result.elifs = append(result.elifs, part)
			continue
		}
		if t.text == "else" {
			result.orElse, err = p.bodyTo("endif")
		}
		return result, err
	}
}

func (p *parser) set(line int) (stmt, error) {
	target, err := p.assignTarget(tupleRules{namespace: true})
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		value, err := p.tuple(tupleRules{condexpr: true})
		return &setStmt{target: target, value: value, line: line}, err
	}
	s := &setBlockStmt{target: target, line: line}
	if p.isOp("|") {
		f, err := p.filters(nil)
		if err != nil {
			return nil, err
		}
		s.filter = f.(*filterExpr)
	}
	s.body, err = p.bodyTo("endset")
	return s, err
}

func (p *parser) print(line int) (body, error) {
	var out body
	for p.cur().kind != tokTagEnd {
		if len(out) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, &printStmt{value, line})
	}
	return out, nil
}

func (p *parser) filterBlock(line int) (stmt, error) {
	f, err := p.filter(nil)
	if err != nil {
		return nil, err
	}
	if f, err = p.filters(f); err != nil {
		return nil, err
	}
	b, err := p.bodyTo("endfilter")
	return &filterStmt{body: b, filter: f.(*filterExpr), line: line}, err
}

func (p *parser) with(line int) (stmt, error) {
	s := &withStmt{line: line}
	for p.cur().kind != tokTagEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		target, err := p.assignTarget(tupleRules{})
		if err != nil {
			return nil, err
		}
		setUse(target, param)
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, target), append(s.values, value)
	}
	var err error
	s.body, err = p.bodyTo("endwith")
	return s, err
}

func (p *parser) block(line int) (stmt, error) {
	name, err := p.expect(tokName)
	if err != nil {
		return nil, err
	}
	s := &blockStmt{name: name.text, line: line}
	s.scoped = p.skipName("scoped")
	s.required = p.skipName("required")
	if s.body, err = p.bodyTo("endblock"); err != nil {
		return nil, err
	}
	p.skipName(s.name)
	return s, nil
}

func (p *parser) autoescape(line int) (stmt, error) {
	enabled, err := p.expression()
	if err != nil {
		return nil, err
	}
	b, err := p.bodyTo("endautoescape")
	return &autoescapeStmt{enabled: enabled, body: b, line: line}, err
}

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
	case "autoescape", "block", "extends", "from", "import", "include", "print":
		return nil, &Error{Kind: Unsupported, Line: t.line, Message: "Ridge's Jinja does not have the tag '" + t.text + "'"}
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

package jinja

// filterChain parses what may follow a primary besides its postfixes: filters, tests, and calls of their results.
func (p *parser) filterChain(e expr) (expr, error) {
	for {
		var err error
		line := p.cur().line
		switch {
		case p.isOp("|"):
			e, err = p.filters(e)
		case p.skipName("is"):
			e, err = p.test(e, line)
		case p.isOp("("):
			var args callArgs
			args, err = p.callArgs()
			e = &callExpr{callee: e, args: args, line: line}
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// filters parses |name(args)|name….
func (p *parser) filters(operand expr) (expr, error) {
	e := operand
	for p.skipOp("|") {
		var err error
		if e, err = p.filter(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// filter parses name(args), the operand being what it is applied to.
func (p *parser) filter(operand expr) (expr, error) {
	line := p.cur().line
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{operand: operand, name: name, line: line}
	if p.isOp("(") {
		f.args, err = p.callArgs()
	}
	return f, err
}

func (p *parser) dottedName() (string, error) {
	t, err := p.expect(tokName)
	name := t.text
	for err == nil && p.skipOp(".") {
		t, err = p.expect(tokName)
		name += "." + t.text
	}
	return name, err
}

// test parses what follows "is": a test, perhaps negated, with arguments in parentheses or one primary without.
func (p *parser) test(operand expr, line int) (expr, error) {
	negated := p.skipName("not")
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	t := &testExpr{operand: operand, name: name, line: line}
	switch {
	case p.isOp("("):
		t.args, err = p.callArgs()
	case p.startsTestArgument():
		if p.isName("is") {
			return nil, p.fail(p.cur().line, "tests cannot be chained: combine them with 'and'")
		}
		var arg expr
		if arg, err = p.primary(false); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = exprs{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}

func (p *parser) startsTestArgument() bool {
	switch p.cur().kind {
	case tokName:
		return !p.isName("else") && !p.isName("or") && !p.isName("and")
	case tokString, tokInteger, tokFloat:
		return true
	}
	return p.isOp("[") || p.isOp("{")
}

package jinja

// tupleRules say how an expression that may be a tuple without parentheses is parsed.
type tupleRules struct {
	condexpr  bool   // "a if b else c" may stand in it
	simple    bool   // only names and literals: the target of an assignment
	parens    bool   // it stands in parentheses, so that nothing at all is the empty tuple
	namespace bool   // of a simple one: "name.attr" may stand in it
	end       string // a name that ends it
}

// tuple parses an expression, or a tuple when commas follow.
func (p *parser) tuple(rules tupleRules) (expr, error) {
	var items exprs
	isTuple := false
	for {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t := p.cur()
		if t.kind == tokPrintEnd || t.kind == tokTagEnd || t.is(tokOperator, ")") || rules.end != "" && t.is(tokName, rules.end) {
			break
		}
		var item expr
		var err error
		switch {
		case rules.simple:
			item, err = p.primary(rules.namespace)
		case rules.condexpr:
			item, err = p.expression()
		default:
			item, err = p.or()
		}
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if !p.isOp(",") {
			break
		}
		isTuple = true
	}
	switch {
	case isTuple || len(items) == 0 && rules.parens:
		return &tupleExpr{items}, nil
	case len(items) == 0:
		return nil, p.unexpected("an expression")
	}
	return items[0], nil
}

// assignTarget parses what stands before "=" or "in".
func (p *parser) assignTarget(rules tupleRules) (expr, error) {
	line := p.cur().line
	rules.simple = true
	e, err := p.tuple(rules)
	if err != nil {
		return nil, err
	}
	if !setUse(e, store) {
		return nil, p.fail(line, "only a name, a namespace attribute or a tuple of them can be assigned to")
	}
	return e, nil
}

// setUse marks the names in a target, and reports whether it is one.
func setUse(e expr, use nameUse) bool {
	switch e := e.(type) {
	case *nameExpr:
		e.use = use
		return true
	case *nsExpr:
		return true
	case *tupleExpr:
		for _, item := range e.items {
			if !setUse(item, use) {
				return false
			}
		}
		return true
	}
	return false
}

// expression parses "a if b else c" and all that binds tighter.
func (p *parser) expression() (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.nesting-- }()
	line := p.cur().line
	e, err := p.or()
	for err == nil && p.skipName("if") {
		c := &condExpr{then: e, line: line}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			c.other, err = p.expression()
		}
		e = c
		line = p.cur().line
	}
	return e, err
}

// chain parses operand (operator operand)*, grouping to the left.
func (p *parser) chain(operand func() (expr, error), operator func() bool, join func(op token, left, right expr) expr) (expr, error) {
	left, err := operand()
	for err == nil && operator() {
		op := p.next()
		var right expr
		if right, err = operand(); err == nil {
			left = join(op, left, right)
		}
	}
	return left, err
}

func (p *parser) or() (expr, error) {
	return p.chain(p.and, func() bool { return p.isName("or") },
		func(_ token, l, r expr) expr { return &logicExpr{false, l, r} })
}

func (p *parser) and() (expr, error) {
	return p.chain(p.not, func() bool { return p.isName("and") },
		func(_ token, l, r expr) expr { return &logicExpr{true, l, r} })
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.nesting-- }()
	operand, err := p.not()
	return &notExpr{operand}, err
}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		op := p.cur().text
		switch {
		case p.isOp("==") || p.isOp("!=") || p.isOp("<") || p.isOp("<=") || p.isOp(">") || p.isOp(">=") || p.isName("in"):
			p.next()
		case p.isName("not") && p.look().is(tokName, "in"):
			p.next()
			p.next()
			op = "notin"
		case len(c.ops) == 0:
			return first, nil
		default:
			return c, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
}

func joinBinary(op token, l, r expr) expr { return &binaryExpr{op.text, l, r} }

func (p *parser) sum() (expr, error) {
	return p.chain(p.concat, func() bool { return p.isOp("+") || p.isOp("-") }, joinBinary)
}

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	c := &concatExpr{items: exprs{first}}
	for p.skipOp("~") {
		item, err := p.product()
		if err != nil {
			return nil, err
		}
		c.items = append(c.items, item)
	}
	return c, nil
}

func (p *parser) product() (expr, error) {
	return p.chain(p.power, func() bool { return p.isOp("*") || p.isOp("/") || p.isOp("//") || p.isOp("%") }, joinBinary)
}

func (p *parser) power() (expr, error) {
	return p.chain(func() (expr, error) { return p.unary(true) }, func() bool { return p.isOp("**") }, joinBinary)
}

// unary parses a sign or a primary with what follows it. A filter applies to the signed value: -1|abs is 1.
func (p *parser) unary(withFilters bool) (expr, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.nesting-- }()
	var e expr
	var err error
	if p.isOp("-") || p.isOp("+") {
		minus := p.next().text == "-"
		if e, err = p.unary(false); err == nil {
			e = &signExpr{minus, e}
		}
	} else {
		e, err = p.primary(false)
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && withFilters {
		e, err = p.filterChain(e)
	}
	return e, err
}

package jinja

import "strings"

// primary parses a name or a literal; with namespace also "name.attr", as the target of an assignment.
func (p *parser) primary(namespace bool) (expr, error) {
	t := p.cur()
	switch {
	case t.kind == tokName:
		p.next()
		switch {
		case t.text == "true" || t.text == "True":
			return &constExpr{true}, nil
		case t.text == "false" || t.text == "False":
			return &constExpr{false}, nil
		case t.text == "none" || t.text == "None":
			return &constExpr{nil}, nil
		case namespace && p.skipOp("."):
			attr, err := p.expect(tokName)
			return &nsExpr{&nameExpr{name: t.text, line: t.line}, attr.text}, err
		}
		return &nameExpr{name: t.text, line: t.line}, nil
	case t.kind == tokString:
		var text []string
		for p.cur().kind == tokString { // adjacent strings are one
			text = append(text, p.next().text)
		}
		return &constExpr{strings.Join(text, "")}, nil
	case t.kind == tokInteger || t.kind == tokFloat:
		p.next()
		return &constExpr{t.value}, nil
	case p.skipOp("("):
		e, err := p.tuple(tupleRules{condexpr: true, parens: true})
		if err != nil {
			return nil, err
		}
		return e, p.expectOp(")")
	case p.skipOp("["):
		items, err := p.list("]")
		return &listExpr{items}, err
	case p.skipOp("{"):
		return p.dict()
	}
	return nil, p.fail(t.line, "unexpected %s", t)
}

// list parses expressions between commas up to a closing bracket; a last comma may stand.
func (p *parser) list(end string) (exprs, error) {
	var items exprs
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

// postfix parses .name, [key] and (args).
func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		line := p.cur().line
		switch {
		case p.skipOp("."):
			e, err = p.attribute(e)
		case p.skipOp("["):
			e, err = p.subscript(e)
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

func (p *parser) attribute(object expr) (expr, error) {
	switch t := p.next(); t.kind {
	case tokName:
		return &attrExpr{object, t.text}, nil
	case tokInteger:
		return &itemExpr{object, &constExpr{t.value}}, nil
	default:
		return nil, p.fail(t.line, "expected a name or a number after '.', found %s", t)
	}
}

// subscript parses what stands between brackets: a key, a tuple of keys, or a slice.
func (p *parser) subscript(object expr) (expr, error) {
	line := p.cur().line
	var keys exprs
	var slice *sliceExpr
	for !p.skipOp("]") {
		if len(keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		key, isSlice, err := p.subscriptPart()
		if err != nil {
			return nil, err
		}
		if isSlice != nil {
			slice = isSlice
		}
		keys = append(keys, key)
	}
	switch {
	case slice != nil && len(keys) == 1:
		slice.object = object
		return slice, nil
	case slice != nil:
		return nil, p.fail(line, "a slice cannot stand among several subscripts")
	case len(keys) == 1:
		return &itemExpr{object, keys[0]}, nil
	}
	return &itemExpr{object, &tupleExpr{keys}}, nil
}

// subscriptPart parses a key or the parts of a slice.
func (p *parser) subscriptPart() (expr, *sliceExpr, error) {
	s := &sliceExpr{}
	var err error
	if !p.isOp(":") {
		if s.from, err = p.expression(); err != nil || !p.isOp(":") {
			return s.from, nil, err
		}
	}
	p.next()
	atEnd := func() bool { return p.isOp("]") || p.isOp(",") }
	if !p.isOp(":") && !atEnd() {
		if s.to, err = p.expression(); err != nil {
			return nil, nil, err
		}
	}
	if p.skipOp(":") && !atEnd() {
		s.step, err = p.expression()
	}
	return s, s, err
}

func (p *parser) callArgs() (callArgs, error) {
	var a callArgs
	line := p.cur().line
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.skipOp(")") {
				break
			}
		}
		if err := p.callArg(&a, line); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *parser) callArg(a *callArgs, line int) error {
	var err error
	misplaced := false
	switch {
	case p.skipOp("*"):
		misplaced = a.star != nil || a.starStar != nil
		a.star, err = p.expression()
	case p.skipOp("**"):
		misplaced = a.starStar != nil
		a.starStar, err = p.expression()
	case p.cur().kind == tokName && p.look().is(tokOperator, "="):
		name := p.next().text
		p.next()
		misplaced = a.starStar != nil
		for _, other := range a.kwNames {
			if other == name {
				return p.fail(line, "the argument '%s' is given twice", name)
			}
		}
		var value expr
		value, err = p.expression()
		a.kwNames, a.kwValues = append(a.kwNames, name), append(a.kwValues, value)
	default:
		misplaced = a.star != nil || a.starStar != nil || len(a.kwNames) > 0
		var value expr
		value, err = p.expression()
		a.pos = append(a.pos, value)
	}
	if misplaced {
		return p.fail(line, "the arguments of a call must be in the order: plain, named, *sequence, **mapping")
	}
	return err
}

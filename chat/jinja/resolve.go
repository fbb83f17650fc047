package jinja

// place is where in a template resolving is. It walks a parsed template, decides for every name which variable it is, and
// checks what can be checked before rendering.
type place struct {
	sym    *symbols
	branch bool // in an if or a conditional expression, where an unknown filter fails only when it is reached
	loops  int  // loops around, within the function
}

// resolve resolves the whole template, whose top level is a function too.
func resolve(t *Template) error {
	if err := checkDepth(t.body.children(), 0); err != nil {
		return err
	}
	t.fn = &function{}
	p := place{sym: newSymbols(t.fn, nil)}
	p.sym.visitAll(t.body.children())
	t.scope = p.scope()
	return p.body(t.body)
}

// checkDepth keeps every recursion over the nodes, here and while rendering, shallow.
func checkDepth(list []node, depth int) error {
	if depth > 2*maxNesting {
		return failKind(Syntax, "the template's expressions nest more than %d deep", 2*maxNesting)
	}
	for _, n := range list {
		if err := checkDepth(n.children(), depth+1); err != nil {
			return at(lineOf(n), err)
		}
	}
	return nil
}

// lineOf is the line of a statement or print, or 0.
func lineOf(n node) int {
	switch n := n.(type) {
	case *printStmt:
		return n.line
	case *setStmt:
		return n.line
	case *ifStmt:
		return n.line
	case *forStmt:
		return n.line
	}
	return 0
}

// mentions tells which of names are read in list before anything there, in order, assigns them.
func mentions(list []node, names ...string) map[string]bool {
	open, found := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		open[name] = true
	}
	for _, n := range list {
		inspect(n, func(n node) bool {
			if len(found) == len(names) {
				return false
			}
			if name, ok := n.(*nameExpr); ok {
				if name.use == load && open[name.name] {
					found[name.name] = true
				} else {
					delete(open, name.name)
				}
			}
			return true
		})
	}
	return found
}

// inner is a scope inside this one, in the same function or in fn when that is not nil.
func (p place) inner(fn *function) place {
	q := place{loops: p.loops}
	if fn == nil {
		fn = p.sym.fn
	} else {
		q.loops = 0
	}
	q.sym = newSymbols(fn, p.sym)
	return q
}

func (p place) newFunction() *function { return &function{parent: p.sym.fn} }

// refTo is a variable as seen from here.
func (p place) refTo(v *variable) *ref {
	out := 0
	for fn := p.sym.fn; fn != v.fn; fn = fn.parent {
		out++
	}
	return &ref{out, v.slot}
}

// scope is what entering and leaving the scope here does, once all its statements have been visited.
func (p place) scope() scope {
	var sc scope
	for _, v := range p.sym.loads {
		sc.slots = append(sc.slots, v.slot)
		l := entryLoad{slot: v.slot, name: v.name}
		switch src := p.sym.from[v]; src.kind {
		case fromCaller:
			continue
		case fromOuter:
			l.outer = p.refTo(src.outer)
		case fromNothing:
			l.unset = true
		}
		sc.loads = append(sc.loads, l)
	}
	return sc
}

// target resolves the target of an assignment.
func (p place) target(e expr) (target, error) {
	switch e := e.(type) {
	case *nameExpr:
		return target{slot: p.sym.find(e.name).slot}, nil
	case *nsExpr:
		return target{ns: e}, p.expr(e.name)
	}
	t := target{tuple: true}
	for _, item := range e.(*tupleExpr).items {
		sub, err := p.target(item)
		if err != nil {
			return t, err
		}
		t.items = append(t.items, sub)
	}
	return t, nil
}

func (p place) exprs(list exprs) error {
	for _, e := range list {
		if err := p.expr(e); err != nil {
			return err
		}
	}
	return nil
}

// expr resolves the names, filters and tests in an expression.
func (p place) expr(e node) error {
	switch e := e.(type) {
	case *nameExpr:
		v := p.sym.find(e.name)
		if v == nil { // upstream stops here too: a set block's filter is not searched for names
			return &Error{Kind: Syntax, Line: e.line, Message: "the name '" + e.name + "' cannot be used in the filter of a set block unless it is used elsewhere too"}
		}
		e.ref = *p.refTo(v)
		return nil
	case *condExpr:
		p.branch = true
	case *filterExpr:
		if e.fn = filterNamed(e.name); e.fn == nil && !p.branch {
			return &Error{Kind: Syntax, Line: e.line, Message: "no filter named '" + e.name + "'"}
		}
	case *testExpr:
		if e.fn = testNamed(e.name); e.fn == nil && !p.branch {
			return &Error{Kind: Syntax, Line: e.line, Message: "no test named '" + e.name + "'"}
		}
	}
	for _, c := range e.children() {
		if err := p.expr(c); err != nil {
			return err
		}
	}
	return nil
}

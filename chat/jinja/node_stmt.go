package jinja

// textStmt is the template's own text.
type textStmt struct{ text string }

// printStmt is {{ value }}.
type printStmt struct {
	value expr
	line  int
}

// forStmt is a loop over iter. The test and the else body may be missing.
type forStmt struct {
	target    expr
	iter      expr
	body      body
	orElse    body
	test      expr
	recursive bool
	line      int

	// resolved
	assign     target    // in the loop's scope
	loopVar    *ref      // where "loop" is kept, when the body may use it
	scope      scope     // entered for each item
	elseScope  scope     //
	fn         *function // of a recursive loop: its body is a function of its own
	testFn     *function // the test is a function of its own, run as items are wanted
	testScope  scope
	testAssign target
}

// ifStmt has its elifs as ifStmts without further branches.
type ifStmt struct {
	test   expr
	body   body
	elifs  []*ifStmt
	orElse body
	line   int
}

// macroDef is what a macro and a call block share.
type macroDef struct {
	name     string // "" for a call block
	params   []*nameExpr
	defaults exprs // of the last params
	body     body

	// resolved
	fn                      *function
	scope                   scope
	caller, kwargs, varargs *ref // where the special variables go, when the body uses them
	usesCaller              bool
}

type macroStmt struct {
	macroDef
	target *nameExpr
	line   int
}

// callStmt is {% call(params) callee(args) %}. Its call is nil for {% generation %}, which prints its own body.
type callStmt struct {
	macroDef
	call *callExpr
	line int
}

type filterStmt struct {
	body   body
	filter *filterExpr
	line   int
	scope  scope // resolved
}

// setStmt is {% set target = value %}.
type setStmt struct {
	target expr
	value  expr
	line   int
	assign target // resolved
}

// setBlockStmt is {% set target | filter %} … {% endset %}; the filter may be nil.
type setBlockStmt struct {
	target expr
	filter *filterExpr
	body   body
	line   int
	assign target // resolved
	scope  scope  // resolved
}

type withStmt struct {
	targets exprs
	values  exprs
	body    body
	assigns []target // resolved
	scope   scope    // resolved
	line    int
}

type breakStmt struct{ line int }

type continueStmt struct{ line int }

func (s *textStmt) children() []node     { return nil }
func (s *printStmt) children() []node    { return nodes(s.value) }
func (s *breakStmt) children() []node    { return nil }
func (s *continueStmt) children() []node { return nil }
func (s *macroStmt) children() []node    { return s.macroDef.children() }
func (s *setStmt) children() []node      { return nodes(s.target, s.value) }
func (s *forStmt) children() []node {
	out := append(nodes(s.target, s.iter), s.body.children()...)
	out = append(out, s.orElse.children()...)
	return append(out, nodes(optional(s.test))...)
}

func (s *ifStmt) children() []node {
	out := append(nodes(s.test), s.body.children()...)
	for _, e := range s.elifs {
		out = append(out, e)
	}
	return append(out, s.orElse.children()...)
}

func (m *macroDef) children() []node {
	var out []node
	for _, p := range m.params {
		out = append(out, p)
	}
	out = append(out, m.defaults.children()...)
	return append(out, m.body.children()...)
}

func (s *callStmt) children() []node {
	if s.call == nil {
		return s.macroDef.children()
	}
	return append([]node{s.call}, s.macroDef.children()...)
}

func (s *filterStmt) children() []node { return append(s.body.children(), s.filter) }

func (s *setBlockStmt) children() []node {
	out := nodes(s.target)
	if s.filter != nil {
		out = append(out, s.filter)
	}
	return append(out, s.body.children()...)
}

func (s *withStmt) children() []node {
	out := append(s.targets.children(), s.values.children()...)
	return append(out, s.body.children()...)
}

package jinja

// nameUse says what a name node does with its name.
type nameUse uint8

const (
	load nameUse = iota
	store
	param // like store, and the scope it stands in declares the name
)

type nameExpr struct {
	name string
	use  nameUse
	line int
	ref  ref // resolved
}

type constExpr struct{ value any }

type tupleExpr struct{ items exprs }

type listExpr struct{ items exprs }

type dictExpr struct {
	keys, values exprs
}

// condExpr is "then if test else other"; other may be nil.
type condExpr struct {
	test, then, other expr
	line              int
}

// binaryExpr is one of + - * / // % **.
type binaryExpr struct {
	op          string
	left, right expr
}

// logicExpr is "and" or "or": its value is that of the operand that decides.
type logicExpr struct {
	and         bool
	left, right expr
}

type notExpr struct{ operand expr }

// signExpr is unary minus or plus.
type signExpr struct {
	minus   bool
	operand expr
}

// compareExpr is a chain such as a < b <= c: ops[i] stands before rest[i].
type compareExpr struct {
	first expr
	ops   []string // == != < <= > >= in notin
	rest  exprs
}

// concatExpr is a ~ b ~ c.
type concatExpr struct{ items exprs }

// callArgs are the arguments of a call, a filter or a test.
type callArgs struct {
	pos      exprs
	kwNames  []string
	kwValues exprs
	star     expr // *sequence, or nil
	starStar expr // **mapping, or nil
}

type callExpr struct {
	callee expr
	args   callArgs
	line   int
}

// filterExpr is operand|name(args). The operand is nil for the first filter of a filter block or a set block.
type filterExpr struct {
	operand expr
	name    string
	args    callArgs
	line    int
	fn      filter // resolved; nil for an unknown filter in a branch, which fails when it is reached
}

// testExpr is operand is name(args).
type testExpr struct {
	operand expr
	name    string
	args    callArgs
	line    int
	fn      test // resolved, as filterExpr's
}

// attrExpr is object.name.
type attrExpr struct {
	object expr
	name   string
}

// itemExpr is object[key].
type itemExpr struct{ object, key expr }

// sliceExpr is object[from:to:step], each part of which may be nil.
type sliceExpr struct{ object, from, to, step expr }

// nsExpr is the target "name.attr" of an assignment to a namespace.
type nsExpr struct {
	name *nameExpr
	attr string
}

func (e *nameExpr) children() []node    { return nil }
func (e *constExpr) children() []node   { return nil }
func (e *tupleExpr) children() []node   { return e.items.children() }
func (e *listExpr) children() []node    { return e.items.children() }
func (e *condExpr) children() []node    { return nodes(e.test, e.then, optional(e.other)) }
func (e *binaryExpr) children() []node  { return nodes(e.left, e.right) }
func (e *logicExpr) children() []node   { return nodes(e.left, e.right) }
func (e *notExpr) children() []node     { return nodes(e.operand) }
func (e *signExpr) children() []node    { return nodes(e.operand) }
func (e *compareExpr) children() []node { return append(nodes(e.first), e.rest.children()...) }
func (e *concatExpr) children() []node  { return e.items.children() }
func (e *callExpr) children() []node    { return append(nodes(e.callee), e.args.children()...) }
func (e *filterExpr) children() []node {
	return append(nodes(optional(e.operand)), e.args.children()...)
}
func (e *testExpr) children() []node { return append(nodes(e.operand), e.args.children()...) }
func (e *attrExpr) children() []node { return nodes(e.object) }
func (e *itemExpr) children() []node { return nodes(e.object, e.key) }
func (e *nsExpr) children() []node   { return nil }

func (e *dictExpr) children() []node {
	var out []node
	for i := range e.keys {
		out = append(out, e.keys[i], e.values[i])
	}
	return out
}

func (e *sliceExpr) children() []node {
	return nodes(e.object, optional(e.from), optional(e.to), optional(e.step))
}

func (a *callArgs) children() []node {
	out := append(a.pos.children(), a.kwValues.children()...)
	return append(out, nodes(optional(a.star), optional(a.starStar))...)
}

package jinja

// A node is a statement or an expression. The parser makes nodes, the analysis (resolve.go) fills in the fields said to
// be resolved, and rendering only reads them: a Template may be rendered by many goroutines at once.
type node interface {
	// children are the parts in upstream's order of fields; the rules on which names a macro or loop uses depend on it.
	children() []node
}

// expr is an expression.
type expr interface {
	node
	eval(r *render, f *frame) (any, error)
}

// stmt is a statement. It writes to r.out.
type stmt interface {
	node
	exec(r *render, f *frame) (control, error)
}

// control is how a statement ended.
type control uint8

const (
	goOn control = iota
	doBreak
	doContinue
)

// body is a list of statements.
type body []stmt

// nodes lists children, leaving out those that are not there.
func nodes(list ...node) []node {
	kept := list[:0]
	for _, n := range list {
		if n != nil {
			kept = append(kept, n)
		}
	}
	return kept
}

func (b body) children() []node {
	out := make([]node, len(b))
	for i, s := range b {
		out[i] = s
	}
	return out
}

// exprs is a list of expressions.
type exprs []expr

func (e exprs) children() []node {
	out := make([]node, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

// optional turns an expression that may be missing into a node that may be nil.
func optional(e expr) node {
	if e == nil {
		return nil
	}
	return e
}

// inspect calls visit for n and everything below it that visit does not stop at by returning false.
func inspect(n node, visit func(node) bool) {
	if !visit(n) {
		return
	}
	for _, c := range n.children() {
		inspect(c, visit)
	}
}

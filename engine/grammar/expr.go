package grammar

// expr is a language over code points. A rule's body is a tree of them:
//
//	text     exactly these code points
//	class    one code point of a set
//	seq      one after the other; seq{} is the empty text
//	alt      one of them; alt{} is no text at all
//	repeat   between min and max times; max < 0 is no upper bound
//	ref      a rule, by its index
//	graph    a walk along arcs from node 0 to a final node
//	marker   what stands before and behind the name of a special token
//	quoted   the inner language, which calls no rules, as it stands between the quotes of a JSON string: escaped where
//	         it must be
type expr interface{ isExpr() }

type (
	text   string
	class  []runeRange // sorted and disjoint
	seq    []expr
	alt    []expr
	ref    int
	quoted struct{ x expr }
	marker struct{}
	repeat struct {
		x        expr
		min, max int
	}
	graph struct {
		final []bool // one per node
		arcs  []graphArc
	}
	// graphArc leads from one node to another by a text of x; a nil x is the empty text.
	graphArc struct {
		from, to int
		x        expr
	}
)

func (text) isExpr()   {}
func (class) isExpr()  {}
func (seq) isExpr()    {}
func (alt) isExpr()    {}
func (ref) isExpr()    {}
func (quoted) isExpr() {}
func (marker) isExpr() {}
func (repeat) isExpr() {}
func (graph) isExpr()  {}

// optional is x or nothing.
func optional(x expr) expr { return repeat{x, 0, 1} }

// star is any number of x.
func star(x expr) expr { return repeat{x, 0, -1} }

// children calls f with the parts of x.
func children(x expr, f func(expr)) {
	switch x := x.(type) {
	case seq:
		for _, y := range x {
			f(y)
		}
	case alt:
		for _, y := range x {
			f(y)
		}
	case repeat:
		f(x.x)
	case quoted:
		f(x.x)
	case graph:
		for _, a := range x.arcs {
			if a.x != nil {
				f(a.x)
			}
		}
	}
}

// nullable tells whether x has the empty text, given which rules have it.
func nullable(x expr, rules []bool) bool {
	switch x := x.(type) {
	case text:
		return x == ""
	case seq:
		for _, y := range x {
			if !nullable(y, rules) {
				return false
			}
		}
		return true
	case alt:
		for _, y := range x {
			if nullable(y, rules) {
				return true
			}
		}
	case repeat:
		return x.min == 0 || nullable(x.x, rules)
	case quoted:
		return nullable(x.x, rules)
	case ref:
		return rules[x]
	case graph:
		return x.nullable(rules)
	}
	return false
}

func (g graph) nullable(rules []bool) bool {
	reached := make([]bool, len(g.final))
	reached[0] = true
	for grown := true; grown; {
		grown = false
		for _, a := range g.arcs {
			if reached[a.from] && !reached[a.to] && (a.x == nil || nullable(a.x, rules)) {
				reached[a.to], grown = true, true
			}
		}
	}
	for i, ok := range reached {
		if ok && g.final[i] {
			return true
		}
	}
	return false
}

// Package syntax is grammars as trees: rules whose bodies are expressions over code points. The packages that read a source
// (schema, regex, gbnf) make them, and package automaton compiles them.
package syntax

// Expr is a language over code points. A rule's body is a tree of them:
//
//	Text     exactly these code points
//	Class    one code point of a set
//	Seq      a concatenation; Seq{} is the empty text
//	Alt      an alternation; Alt{} is no text at all
//	Repeat   between Min and Max times; Max < 0 is no upper bound
//	Ref      a rule, by its index
//	Graph    a finite automaton: a walk along arcs from node 0 to a final node
//	Marker   the mark before and behind the name of a special token
//	Anchor   ^ or $ of a pattern; package regex removes them before it returns an expression
//	Quoted   the inner language, which calls no rules, inside the quotes of a JSON string: escaped where
//	         necessary
type Expr interface{ isExpr() }

type (
	Text   string
	Class  []RuneRange // sorted and disjoint
	Seq    []Expr
	Alt    []Expr
	Ref    int
	Quoted struct{ X Expr }
	Marker struct{}
	Anchor byte
	Repeat struct {
		X        Expr
		Min, Max int
	}
	Graph struct {
		Final []bool // one per node
		Arcs  []GraphArc
	}
	// GraphArc leads from one node to another by a text of x; a nil x is the empty text.
	GraphArc struct {
		From, To int
		X        Expr
	}
)

func (Text) isExpr()   {}
func (Class) isExpr()  {}
func (Seq) isExpr()    {}
func (Alt) isExpr()    {}
func (Ref) isExpr()    {}
func (Quoted) isExpr() {}
func (Marker) isExpr() {}
func (Anchor) isExpr() {}
func (Repeat) isExpr() {}
func (Graph) isExpr()  {}

// MarkerByte is the byte around the name of a special token. It is no part of UTF-8, so no text is taken for one: ordinary
// tokens that have it are never allowed.
const MarkerByte = 0xFF

// Optional is x or nothing.
func Optional(x Expr) Expr { return Repeat{x, 0, 1} }

// Star is any number of x.
func Star(x Expr) Expr { return Repeat{x, 0, -1} }

// Children calls f with the parts of x.
func Children(x Expr, f func(Expr)) {
	switch x := x.(type) {
	case Seq:
		for _, y := range x {
			f(y)
		}
	case Alt:
		for _, y := range x {
			f(y)
		}
	case Repeat:
		f(x.X)
	case Quoted:
		f(x.X)
	case Graph:
		for _, a := range x.Arcs {
			if a.X != nil {
				f(a.X)
			}
		}
	}
}

// Nullable reports whether x has the empty text, given which rules have it.
func Nullable(x Expr, rules []bool) bool {
	switch x := x.(type) {
	case Text:
		return x == ""
	case Seq:
		for _, y := range x {
			if !Nullable(y, rules) {
				return false
			}
		}
		return true
	case Alt:
		for _, y := range x {
			if Nullable(y, rules) {
				return true
			}
		}
	case Repeat:
		return x.Min == 0 || Nullable(x.X, rules)
	case Quoted:
		return Nullable(x.X, rules)
	case Ref:
		return rules[x]
	case Graph:
		return x.nullable(rules)
	}
	return false
}

func (g Graph) nullable(rules []bool) bool {
	reached := make([]bool, len(g.Final))
	reached[0] = true
	for grown := true; grown; {
		grown = false
		for _, a := range g.Arcs {
			if reached[a.From] && !reached[a.To] && (a.X == nil || Nullable(a.X, rules)) {
				reached[a.To], grown = true, true
			}
		}
	}
	for i, ok := range reached {
		if ok && g.Final[i] {
			return true
		}
	}
	return false
}

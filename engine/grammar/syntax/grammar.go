package syntax

import "slices"

// Grammar is a context-free grammar: rules, and the index of the first. It does not change once it is made.
type Grammar struct {
	Rules []Rule
	Root  int
	// Unenforced is what the source says and the rules do not, by its place: it is left to the writer.
	Unenforced []string
}

// Rule is a named language. If Times is set, the rule repeats the rule that Times.Body names, and its state is a counter.
type Rule struct {
	Name  string // for error messages: as the source calls it, or where in the source it stands
	Body  Expr
	Times *Times
}

// Times is a counted repetition of a rule.
type Times struct {
	Body     int // the index of the rule
	Min, Max int // Max < 0: no upper bound
}

// Single is the grammar of one expression that calls no rules.
func Single(x Expr) *Grammar { return &Grammar{Rules: []Rule{{Name: "root", Body: x}}} }

// Join puts the rules of several grammars together under a new root.
func Join(parts []*Grammar, root func([]Expr) Expr) *Grammar {
	g := &Grammar{}
	var refs []Expr
	for _, p := range parts {
		base := Ref(len(g.Rules))
		for _, r := range p.Rules {
			g.Rules = append(g.Rules, r.shifted(base))
		}
		g.Unenforced = append(g.Unenforced, p.Unenforced...)
		refs = append(refs, Ref(p.Root)+base)
	}
	g.Root = len(g.Rules)
	g.Rules = append(g.Rules, Rule{Name: "root", Body: root(refs)})
	return g
}

// shifted is the rule where rule i is called i + by.
func (r Rule) shifted(by Ref) Rule {
	r.Body = shift(r.Body, by)
	if r.Times != nil {
		t := *r.Times
		t.Body += int(by)
		r.Times = &t
	}
	return r
}

func shift(x Expr, by Ref) Expr {
	all := func(list []Expr) []Expr {
		list = slices.Clone(list)
		for i := range list {
			list[i] = shift(list[i], by)
		}
		return list
	}
	switch x := x.(type) {
	case Ref:
		return x + by
	case Seq:
		return Seq(all(x))
	case Alt:
		return Alt(all(x))
	case Repeat:
		x.X = shift(x.X, by)
		return x
	case Graph:
		x.Arcs = slices.Clone(x.Arcs)
		for i, a := range x.Arcs {
			if a.X != nil {
				x.Arcs[i].X = shift(a.X, by)
			}
		}
		return x
	}
	return x // the others call no rules
}

package dfa

import (
	"slices"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// nfa is the nondeterministic automaton of one rule's body. Its symbols are bytes (or, for patterns, code points) and calls of
// rules.
type nfa struct{ states []nfaState }

type nfaState struct {
	empty []int32 // reached without a symbol
	arcs  []Arc
	calls []Call
}

// Arc leads to a state by one symbol between lo and hi.
type Arc struct {
	Lo, Hi rune
	To     int32
}

// Call leads to a state by a non-empty text of a rule.
type Call struct{ Rule, To int32 }

// Encoding is how a code point is written in the language that is built.
type Encoding uint8

const (
	AsUTF8   Encoding = iota
	AsQuoted          // UTF-8 between the quotes of a JSON string
	asRunes           // itself
)

// lowering turns expressions into an nfa. A fragment goes from one state to another and adds no arc into the first nor
// out of the second, unless they are the same.
type lowering struct {
	nfa
	enc  Encoding
	refs Rules
	full bool // there are too many states
}

// Rules is what Lower needs to know of the rules that an expression calls.
type Rules interface {
	Inline(syntax.Ref) (body syntax.Expr, ok bool) // ok: the body is to be put in the call's place
	Nullable(x syntax.Expr) bool
	Meter() *syntax.Meter                                                    // of the work, may be nil; where it ends, ok is false
	Counted(x syntax.Repeat, enc Encoding) (rule int32, mayBeEmpty, ok bool) // ok: a rule for a repetition too large to unroll
}

// Lower makes the automaton of x over the bytes of its texts; ok is false if it would be too large.
func Lower(x syntax.Expr, rules Rules) (d *DFA, ok bool) { return lowerAs(x, rules, AsUTF8) }

func lowerAs(x syntax.Expr, rules Rules, enc Encoding) (d *DFA, ok bool) {
	l := lowering{enc: enc, refs: rules}
	from, to := l.state(), l.state()
	l.add(x, from, to)
	if l.full {
		return nil, false
	}
	return determinise(&l.nfa, from, to, rules.Meter())
}

func (l *lowering) state() int32 {
	if len(l.states) >= MaxStates || !l.refs.Meter().Spend(1) {
		l.full = true
		return 0
	}
	l.states = append(doubled(l.states), nfaState{})
	return int32(len(l.states) - 1)
}

// doubled is a list with room for another element. append lets long lists grow by a quarter, and what it leaves behind comes to four times the list.
func doubled[T any](list []T) []T {
	if len(list) == cap(list) {
		return slices.Grow(list, max(64, len(list)))
	}
	return list
}

func (l *lowering) skip(from, to int32) {
	l.states[from].empty = append(l.states[from].empty, to)
}

func (l *lowering) arc(from int32, lo, hi rune, to int32) {
	l.states[from].arcs = append(l.states[from].arcs, Arc{lo, hi, to})
}

func (l *lowering) call(from int32, rule int32, to int32, mayBeEmpty bool) {
	l.states[from].calls = append(l.states[from].calls, Call{rule, to})
	if mayBeEmpty {
		l.skip(from, to)
	}
}

// add puts x between two states.
func (l *lowering) add(x syntax.Expr, from, to int32) {
	if l.full {
		return
	}
	switch x := x.(type) {
	case syntax.Text:
		l.text(string(x), from, to)
	case syntax.Class:
		l.class(x, from, to)
	case syntax.Marker:
		l.arc(from, syntax.MarkerByte, syntax.MarkerByte, to)
	case syntax.Seq:
		for i, y := range x {
			next := to
			if i < len(x)-1 {
				next = l.state()
			}
			l.add(y, from, next)
			from = next
		}
		if len(x) == 0 {
			l.skip(from, to)
		}
	case syntax.Alt:
		for _, y := range x {
			l.add(y, from, to)
		}
	case syntax.Repeat:
		l.repeat(x, from, to)
	case syntax.Ref:
		if body, ok := l.refs.Inline(x); ok {
			l.add(body, from, to)
		} else {
			l.call(from, int32(x), to, l.refs.Nullable(x))
		}
	case syntax.Quoted:
		enc := l.enc
		if enc == AsUTF8 {
			l.enc = AsQuoted
		}
		l.add(x.X, from, to)
		l.enc = enc
	case syntax.Graph:
		l.graph(x, from, to)
	}
}

func (l *lowering) text(s string, from, to int32) {
	if s == "" {
		l.skip(from, to)
		return
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		next := to
		if i < len(s) {
			next = l.state()
		}
		l.class(syntax.Class{{Lo: r, Hi: r}}, from, next)
		from = next
	}
}

func (l *lowering) repeat(x syntax.Repeat, from, to int32) {
	if rule, mayBeEmpty, ok := l.refs.Counted(x, l.enc); ok {
		l.call(from, rule, to, mayBeEmpty)
		return
	}
	for i := 0; i < x.Min && !l.full; i++ {
		next := l.state()
		l.add(x.X, from, next)
		from = next
	}
	if x.Max < 0 {
		loop := l.state()
		l.skip(from, loop)
		l.add(x.X, loop, loop)
		l.skip(loop, to)
		return
	}
	for i := x.Min; i < x.Max && !l.full; i++ {
		next := l.state()
		l.skip(from, to)
		l.add(x.X, from, next)
		from = next
	}
	l.skip(from, to)
}

func (l *lowering) graph(g syntax.Graph, from, to int32) {
	nodes := make([]int32, len(g.Final))
	for i, final := range g.Final {
		nodes[i] = l.state()
		if final {
			l.skip(nodes[i], to)
		}
	}
	l.skip(from, nodes[0])
	for _, a := range g.Arcs {
		if l.full {
			return
		}
		if a.X == nil {
			l.skip(nodes[a.From], nodes[a.To])
			continue
		}
		// The nodes have arcs both ways, which only states of the graph's own may touch.
		l.add(a.X, nodes[a.From], nodes[a.To])
	}
}

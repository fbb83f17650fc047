package dfa

import (
	"unicode"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// MaxRuneStates bounds the states of automata over code points, which become several over bytes each.
const MaxRuneStates = 20_000

// noRules is the Rules of patterns, which call none.
type noRules struct{ meter *syntax.Meter }

func (noRules) Inline(syntax.Ref) (syntax.Expr, bool)               { return nil, false }
func (noRules) Nullable(x syntax.Expr) bool                         { return syntax.Nullable(x, nil) }
func (noRules) Counted(syntax.Repeat, Encoding) (int32, bool, bool) { return 0, false, false }

func (n noRules) Meter() *syntax.Meter { return n.meter }

// OverRunes is the automaton of a pattern over code points, or nil if it is too large or the meter ends it.
func OverRunes(x syntax.Expr, meter *syntax.Meter) *DFA {
	d, ok := lowerAs(x, noRules{meter}, asRunes)
	if !ok || len(d.States) > MaxRuneStates {
		return nil
	}
	return d
}

// Matches reports whether d reads a text to its end.
func (d *DFA) Matches(text string) bool {
	at := int32(0)
	for _, r := range text {
		if at = d.States[at].Next(r); at < 0 {
			return false
		}
	}
	return d.States[at].Final
}

// OfLength is the automaton of all texts of least to most code points, or nil if it is too large. most < 0: no upper bound.
func OfLength(least, most int) *DFA {
	n := max(least, most)
	if n >= MaxRuneStates {
		return nil
	}
	d := &DFA{}
	for i := 0; i <= n; i++ {
		s := State{Final: i >= least}
		next := i + 1
		if i == n {
			next = i
		}
		if i < n || most < 0 {
			s.Arcs = []Arc{{0, unicode.MaxRune, int32(next)}}
		}
		d.States = append(d.States, s)
	}
	return d
}

// Intersect is the automaton of the texts that both read, or nil if it is too large or the meter ends it.
func Intersect(a, b *DFA, meter *syntax.Meter) *DFA {
	type pair struct{ a, b int32 }
	d := &DFA{}
	index := map[pair]int32{}
	var pairs []pair
	state := func(p pair) int32 {
		i, ok := index[p]
		if !ok {
			i = int32(len(pairs))
			index[p] = i
			pairs = append(pairs, p)
			d.States = append(d.States, State{Final: a.States[p.a].Final && b.States[p.b].Final})
		}
		return i
	}
	state(pair{0, 0})
	for i := 0; i < len(pairs); i++ {
		if len(pairs) > MaxRuneStates {
			return nil
		}
		if !meter.Spend(2 + len(a.States[pairs[i].a].Arcs) + len(b.States[pairs[i].b].Arcs)) {
			return nil
		}
		x, y := a.States[pairs[i].a].Arcs, b.States[pairs[i].b].Arcs
		for len(x) > 0 && len(y) > 0 {
			if lo, hi := max(x[0].Lo, y[0].Lo), min(x[0].Hi, y[0].Hi); lo <= hi {
				to := state(pair{x[0].To, y[0].To})
				d.States[i].Arcs = append(d.States[i].Arcs, Arc{lo, hi, to})
			}
			if x[0].Hi < y[0].Hi {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
	}
	return d
}

// Graph is the automaton as an expression. States from which no text ends are left out.
func (d *DFA) Graph() syntax.Graph {
	g := syntax.Graph{}
	for i, s := range d.States {
		g.Final = append(g.Final, s.Final)
		classes := map[int32][]syntax.RuneRange{}
		var order []int32
		for _, a := range s.Arcs {
			if classes[a.To] == nil {
				order = append(order, a.To)
			}
			classes[a.To] = append(classes[a.To], syntax.RuneRange{Lo: a.Lo, Hi: a.Hi})
		}
		for _, to := range order {
			g.Arcs = append(g.Arcs, syntax.GraphArc{From: i, To: int(to), X: syntax.NewClass(classes[to]).Intersect(syntax.AnyRune)})
		}
	}
	return g
}

// Complement is the automaton of the texts that d does not read.
func Complement(d *DFA) *DFA {
	all := int32(len(d.States))
	n := &DFA{States: make([]State, all+1)}
	for i, s := range d.States {
		n.States[i].Final = !s.Final
		next := rune(0)
		for _, a := range s.Arcs {
			if a.Lo > next {
				n.States[i].Arcs = append(n.States[i].Arcs, Arc{next, a.Lo - 1, all})
			}
			n.States[i].Arcs = append(n.States[i].Arcs, a)
			next = a.Hi + 1
		}
		if next <= unicode.MaxRune {
			n.States[i].Arcs = append(n.States[i].Arcs, Arc{next, unicode.MaxRune, all})
		}
	}
	n.States[all] = State{Final: true, Arcs: []Arc{{0, unicode.MaxRune, all}}}
	return n
}

// Empty reports whether d reads no text.
func (d *DFA) Empty() bool { // every state of a DFA made here can be reached
	for _, s := range d.States {
		if s.Final {
			return false
		}
	}
	return true
}

package grammar

import "unicode"

// maxProduct bounds the states of automata over code points, which become several over bytes each.
const maxProduct = 20_000

// noRules is what a lowering of a pattern asks: patterns call no rules.
type noRules struct{}

func (noRules) inline(ref) (expr, bool)                      { return nil, false }
func (noRules) nullable(x expr) bool                         { return nullable(x, nil) }
func (noRules) counted(repeat, encoding) (int32, bool, bool) { return 0, false, false }

// runeDFA is the automaton of a pattern over code points, or nil if it is too large.
func runeDFA(x expr) *dfa {
	l := lowering{enc: asRunes, refs: noRules{}}
	from, to := l.state(), l.state()
	l.add(x, from, to)
	if l.full {
		return nil
	}
	d, ok := determinise(&l.nfa, from, to)
	if !ok || len(d.states) > maxProduct {
		return nil
	}
	return d
}

// matches tells whether d reads a text to its end.
func (d *dfa) matches(text string) bool {
	at := int32(0)
	for _, r := range text {
		if at = d.states[at].next(r); at < 0 {
			return false
		}
	}
	return d.states[at].final
}

// lengthDFA is the automaton of all texts whose length is within bounds, or nil if it is too large.
func lengthDFA(length sizes) *dfa {
	n := max(length.min, length.max)
	if n >= maxProduct {
		return nil
	}
	d := &dfa{}
	for i := 0; i <= n; i++ {
		s := dfaState{final: i >= length.min}
		next := i + 1
		if i == n {
			next = i
		}
		if i < n || length.max < 0 {
			s.arcs = []arc{{0, unicode.MaxRune, int32(next)}}
		}
		d.states = append(d.states, s)
	}
	return d
}

// intersect is the automaton of the texts that both read, or nil if it is too large.
func intersect(a, b *dfa) *dfa {
	type pair struct{ a, b int32 }
	d := &dfa{}
	index := map[pair]int32{}
	var pairs []pair
	state := func(p pair) int32 {
		i, ok := index[p]
		if !ok {
			i = int32(len(pairs))
			index[p] = i
			pairs = append(pairs, p)
			d.states = append(d.states, dfaState{final: a.states[p.a].final && b.states[p.b].final})
		}
		return i
	}
	state(pair{0, 0})
	for i := 0; i < len(pairs); i++ {
		if len(pairs) > maxProduct {
			return nil
		}
		x, y := a.states[pairs[i].a].arcs, b.states[pairs[i].b].arcs
		for len(x) > 0 && len(y) > 0 {
			if lo, hi := max(x[0].lo, y[0].lo), min(x[0].hi, y[0].hi); lo <= hi {
				to := state(pair{x[0].to, y[0].to})
				d.states[i].arcs = append(d.states[i].arcs, arc{lo, hi, to})
			}
			if x[0].hi < y[0].hi {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
	}
	return d
}

// graph is the automaton as an expression. States from which no text ends are left out.
func (d *dfa) graph() graph {
	g := graph{}
	for i, s := range d.states {
		g.final = append(g.final, s.final)
		classes := map[int32][]runeRange{}
		var order []int32
		for _, a := range s.arcs {
			if classes[a.to] == nil {
				order = append(order, a.to)
			}
			classes[a.to] = append(classes[a.to], runeRange{a.lo, a.hi})
		}
		for _, to := range order {
			g.arcs = append(g.arcs, graphArc{i, int(to), newClass(classes[to]).both(anyRune)})
		}
	}
	return g
}

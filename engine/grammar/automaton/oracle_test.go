package automaton

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// oracle answers by trying everything: which beginnings of sentences does a grammar have? It reads the expressions
// themselves, by recursive descent over all alternatives, and shares nothing with the automata.
type oracle struct {
	g      *syntax.Grammar
	text   string
	alive  bool // the text ran out inside a sentence
	quoted bool
	has    []bool // rule → it has a sentence at all
}

func newOracle(g *syntax.Grammar) *oracle {
	o := &oracle{g: g, has: make([]bool, len(g.Rules))}
	for range g.Rules {
		for i, r := range g.Rules {
			o.has[i] = o.possible(r.Body)
		}
	}
	return o
}

// possible reports whether x has a text, as far as is known of the rules.
func (o *oracle) possible(x syntax.Expr) bool {
	switch x := x.(type) {
	case syntax.Class:
		return len(x) > 0
	case syntax.Seq:
		for _, y := range x {
			if !o.possible(y) {
				return false
			}
		}
	case syntax.Alt:
		for _, y := range x {
			if o.possible(y) {
				return true
			}
		}
		return false
	case syntax.Repeat:
		return x.Min == 0 || o.possible(x.X)
	case syntax.Quoted:
		return o.possible(x.X)
	case syntax.Ref:
		return o.has[x]
	case syntax.Graph:
		reached := make([]bool, len(x.Final))
		reached[0] = true
		for range x.Final {
			for _, a := range x.Arcs {
				if reached[a.From] && (a.X == nil || o.possible(a.X)) {
					reached[a.To] = true
				}
			}
		}
		for i := range reached {
			if reached[i] && x.Final[i] {
				return true
			}
		}
		return false
	}
	return true
}

// read reports whether s is a sentence, and whether it is the beginning of one.
func (o *oracle) read(s string) (sentence, beginning bool) {
	o.text, o.alive, o.quoted = s, false, false
	if !o.has[o.g.Root] {
		return false, false
	}
	start := make(places, len(s)+1)
	start[0] = true
	sentence = o.from(syntax.Ref(o.g.Root), start)[len(s)]
	return sentence, sentence || o.alive
}

// places is a set of places of the text.
type places []bool

// add reports whether it added any.
func (p places) add(q places) (grown bool) {
	for i := range q {
		grown = grown || q[i] && !p[i]
		p[i] = p[i] || q[i]
	}
	return grown
}

// from returns where the texts of x that begin at one of the places may end.
func (o *oracle) from(x syntax.Expr, at places) places {
	ends := make(places, len(at))
	if !o.possible(x) || !slices.Contains(at, true) {
		return ends
	}
	switch x := x.(type) {
	case syntax.Text:
		for i := range at {
			if at[i] {
				o.literal(string(x), i, ends)
			}
		}
	case syntax.Class:
		for _, r := range x {
			for c := r.Lo; c <= r.Hi; c++ {
				ends.add(o.from(syntax.Text(c), at))
			}
		}
	case syntax.Seq:
		for _, y := range x {
			at = o.from(y, at)
		}
		return at
	case syntax.Alt:
		for _, y := range x {
			ends.add(o.from(y, at))
		}
	case syntax.Repeat:
		for i := 0; x.Max < 0 || i <= x.Max; i++ {
			if i >= x.Min && !ends.add(at) {
				break
			}
			if i < x.Max || x.Max < 0 {
				at = o.from(x.X, at)
			}
		}
	case syntax.Quoted:
		was := o.quoted
		o.quoted = true
		ends = o.from(x.X, at)
		o.quoted = was
	case syntax.Graph:
		return o.graph(x, at)
	case syntax.Ref:
		return o.from(o.g.Rules[x].Body, at)
	}
	return ends
}

func (o *oracle) graph(x syntax.Graph, at places) places {
	ends := make(places, len(at))
	reached := make([]places, len(x.Final))
	for i := range reached {
		reached[i] = make(places, len(at))
	}
	reached[0].add(at)
	ending := o.ending(x)
	for grown := true; grown; {
		grown = false
		for _, a := range x.Arcs {
			if !ending[a.To] {
				continue
			}
			to := reached[a.From]
			if a.X != nil {
				to = o.from(a.X, to)
			}
			grown = reached[a.To].add(to) || grown
		}
	}
	for i, final := range x.Final {
		if final {
			ends.add(reached[i])
		}
	}
	return ends
}

// ending tells from which nodes of x a final one can be reached: text that leads elsewhere begins no sentence.
func (o *oracle) ending(x syntax.Graph) []bool {
	ending := slices.Clone(x.Final)
	for range x.Final {
		for _, a := range x.Arcs {
			if ending[a.To] && (a.X == nil || o.possible(a.X)) {
				ending[a.From] = true
			}
		}
	}
	return ending
}

func (o *oracle) literal(s string, at int, ends places) {
	if o.quoted {
		escaped := ""
		for _, r := range s {
			if r < 0x20 || r == '"' || r == '\\' {
				escaped += syntax.EscapeJSON(r)
			} else {
				escaped += string(r)
			}
		}
		s = escaped
	}
	rest := o.text[at:]
	switch {
	case len(rest) >= len(s) && rest[:len(s)] == s:
		ends[at+len(s)] = true
	case len(rest) < len(s) && s[:len(rest)] == rest:
		o.alive = true
	}
}

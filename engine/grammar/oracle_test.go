package grammar

import "slices"

// oracle answers by trying everything: which beginnings of sentences does a grammar have? It reads the expressions
// themselves, by recursive descent over all alternatives, and shares nothing with the automata.
type oracle struct {
	g      *Grammar
	text   string
	alive  bool // the text ran out inside a sentence
	quoted bool
	has    []bool // rule → it has a sentence at all
}

func newOracle(g *Grammar) *oracle {
	o := &oracle{g: g, has: make([]bool, len(g.rules))}
	for range g.rules {
		for i, r := range g.rules {
			o.has[i] = o.possible(r.body)
		}
	}
	return o
}

// possible tells whether x has a text, as far as is known of the rules.
func (o *oracle) possible(x expr) bool {
	switch x := x.(type) {
	case class:
		return len(x) > 0
	case seq:
		for _, y := range x {
			if !o.possible(y) {
				return false
			}
		}
	case alt:
		for _, y := range x {
			if o.possible(y) {
				return true
			}
		}
		return false
	case repeat:
		return x.min == 0 || o.possible(x.x)
	case quoted:
		return o.possible(x.x)
	case ref:
		return o.has[x]
	case graph:
		reached := make([]bool, len(x.final))
		reached[0] = true
		for range x.final {
			for _, a := range x.arcs {
				if reached[a.from] && (a.x == nil || o.possible(a.x)) {
					reached[a.to] = true
				}
			}
		}
		for i := range reached {
			if reached[i] && x.final[i] {
				return true
			}
		}
		return false
	}
	return true
}

// read tells whether s is a sentence, and whether it is the beginning of one.
func (o *oracle) read(s string) (sentence, beginning bool) {
	o.text, o.alive, o.quoted = s, false, false
	if !o.has[o.g.root] {
		return false, false
	}
	start := make(places, len(s)+1)
	start[0] = true
	sentence = o.from(ref(o.g.root), start)[len(s)]
	return sentence, sentence || o.alive
}

// places is a set of places of the text.
type places []bool

// add tells whether it added any.
func (p places) add(q places) (grown bool) {
	for i := range q {
		grown = grown || q[i] && !p[i]
		p[i] = p[i] || q[i]
	}
	return grown
}

// from returns where the texts of x that begin at one of the places may end.
func (o *oracle) from(x expr, at places) places {
	ends := make(places, len(at))
	if !o.possible(x) || !slices.Contains(at, true) {
		return ends
	}
	switch x := x.(type) {
	case text:
		for i := range at {
			if at[i] {
				o.literal(string(x), i, ends)
			}
		}
	case class:
		for _, r := range x {
			for c := r.lo; c <= r.hi; c++ {
				ends.add(o.from(text(c), at))
			}
		}
	case seq:
		for _, y := range x {
			at = o.from(y, at)
		}
		return at
	case alt:
		for _, y := range x {
			ends.add(o.from(y, at))
		}
	case repeat:
		for i := 0; x.max < 0 || i <= x.max; i++ {
			if i >= x.min && !ends.add(at) {
				break
			}
			if i < x.max || x.max < 0 {
				at = o.from(x.x, at)
			}
		}
	case quoted:
		was := o.quoted
		o.quoted = true
		ends = o.from(x.x, at)
		o.quoted = was
	case graph:
		return o.graph(x, at)
	case ref:
		return o.from(o.g.rules[x].body, at)
	}
	return ends
}

func (o *oracle) graph(x graph, at places) places {
	ends := make(places, len(at))
	reached := make([]places, len(x.final))
	for i := range reached {
		reached[i] = make(places, len(at))
	}
	reached[0].add(at)
	ending := o.ending(x)
	for grown := true; grown; {
		grown = false
		for _, a := range x.arcs {
			if !ending[a.to] {
				continue
			}
			to := reached[a.from]
			if a.x != nil {
				to = o.from(a.x, to)
			}
			grown = reached[a.to].add(to) || grown
		}
	}
	for i, final := range x.final {
		if final {
			ends.add(reached[i])
		}
	}
	return ends
}

// ending tells from which nodes of x a final one can be reached: text that leads elsewhere begins no sentence.
func (o *oracle) ending(x graph) []bool {
	ending := slices.Clone(x.final)
	for range x.final {
		for _, a := range x.arcs {
			if ending[a.to] && (a.x == nil || o.possible(a.x)) {
				ending[a.from] = true
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
				escaped += escape(r)
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

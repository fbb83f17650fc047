package grammar

import "unicode/utf8"

// nfa is one rule's body with its choices still open. Its symbols are bytes (or, for work on patterns, code points) and
// calls of rules.
type nfa struct{ states []nfaState }

type nfaState struct {
	empty []int32 // reached without a symbol
	arcs  []arc
	calls []call
}

// arc leads to a state by one symbol between lo and hi.
type arc struct {
	lo, hi rune
	to     int32
}

// call leads to a state by a non-empty text of a rule.
type call struct{ rule, to int32 }

// encoding says what a code point looks like in the language that is built.
type encoding uint8

const (
	asUTF8   encoding = iota
	asQuoted          // UTF-8 between the quotes of a JSON string
	asRunes           // itself
)

// lowering turns expressions into an nfa. A fragment goes from one state to another and adds no arc into the first nor
// out of the second, unless they are the same.
type lowering struct {
	nfa
	enc  encoding
	refs refs
	full bool // there are too many states
}

// refs is what a lowering asks about rules.
type refs interface {
	inline(ref) (body expr, ok bool) // ok: the body is to be put in the call's place
	nullable(x expr) bool
	counted(x repeat, enc encoding) (rule int32, mayBeEmpty, ok bool) // ok: a rule for a repetition too large to unroll
}

func (l *lowering) state() int32 {
	if len(l.states) >= maxStates {
		l.full = true
		return 0
	}
	l.states = append(l.states, nfaState{})
	return int32(len(l.states) - 1)
}

func (l *lowering) skip(from, to int32) {
	l.states[from].empty = append(l.states[from].empty, to)
}

func (l *lowering) arc(from int32, lo, hi rune, to int32) {
	l.states[from].arcs = append(l.states[from].arcs, arc{lo, hi, to})
}

func (l *lowering) call(from int32, rule int32, to int32, mayBeEmpty bool) {
	l.states[from].calls = append(l.states[from].calls, call{rule, to})
	if mayBeEmpty {
		l.skip(from, to)
	}
}

// add puts x between two states.
func (l *lowering) add(x expr, from, to int32) {
	if l.full {
		return
	}
	switch x := x.(type) {
	case text:
		l.text(string(x), from, to)
	case class:
		l.class(x, from, to)
	case marker:
		l.arc(from, mark, mark, to)
	case seq:
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
	case alt:
		for _, y := range x {
			l.add(y, from, to)
		}
	case repeat:
		l.repeat(x, from, to)
	case ref:
		if body, ok := l.refs.inline(x); ok {
			l.add(body, from, to)
		} else {
			l.call(from, int32(x), to, l.refs.nullable(x))
		}
	case quoted:
		enc := l.enc
		if enc == asUTF8 {
			l.enc = asQuoted
		}
		l.add(x.x, from, to)
		l.enc = enc
	case graph:
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
		l.class(class{{r, r}}, from, next)
		from = next
	}
}

func (l *lowering) repeat(x repeat, from, to int32) {
	if rule, mayBeEmpty, ok := l.refs.counted(x, l.enc); ok {
		l.call(from, rule, to, mayBeEmpty)
		return
	}
	for i := 0; i < x.min && !l.full; i++ {
		next := l.state()
		l.add(x.x, from, next)
		from = next
	}
	if x.max < 0 {
		loop := l.state()
		l.skip(from, loop)
		l.add(x.x, loop, loop)
		l.skip(loop, to)
		return
	}
	for i := x.min; i < x.max && !l.full; i++ {
		next := l.state()
		l.skip(from, to)
		l.add(x.x, from, next)
		from = next
	}
	l.skip(from, to)
}

func (l *lowering) graph(g graph, from, to int32) {
	nodes := make([]int32, len(g.final))
	for i, final := range g.final {
		nodes[i] = l.state()
		if final {
			l.skip(nodes[i], to)
		}
	}
	l.skip(from, nodes[0])
	for _, a := range g.arcs {
		if l.full {
			return
		}
		if a.x == nil {
			l.skip(nodes[a.from], nodes[a.to])
			continue
		}
		// The nodes have arcs both ways, which only states of the graph's own may touch.
		l.add(a.x, nodes[a.from], nodes[a.to])
	}
}

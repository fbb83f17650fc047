package grammar

import "slices"

// prune removes what leads nowhere: arcs and calls after which the rule can no longer end, and calls of rules without a
// text. After it, every state that can be reached can be completed, so a text with a position is the beginning of a
// sentence.
func (b *builder) prune() {
	p := pruning{
		alive:   make([]bool, len(b.states)),
		arcsTo:  make([][]int32, len(b.states)),
		callsTo: make([][]caller, len(b.states)),
		ruleAt:  map[int32]int{},
		begun:   map[int]bool{},
		waiting: map[int][]caller{},
	}
	for r, s := range b.start {
		p.ruleAt[s] = r
	}
	for i := range b.states {
		from := int32(i)
		for _, a := range b.states[i].arcs {
			p.arcsTo[a.to] = append(p.arcsTo[a.to], from)
		}
		for _, c := range b.states[i].calls {
			p.callsTo[c.to] = append(p.callsTo[c.to], caller{from, int(c.rule), c.to})
			p.waiting[int(c.rule)] = append(p.waiting[int(c.rule)], caller{from, int(c.rule), c.to})
		}
	}
	for i := range b.states {
		if b.states[i].final {
			p.revive(int32(i))
		}
	}
	for len(p.pending) > 0 {
		s := p.pending[len(p.pending)-1]
		p.pending = p.pending[:len(p.pending)-1]
		p.spread(s)
	}
	for i := range b.states {
		s := &b.states[i]
		s.arcs = slices.DeleteFunc(s.arcs, func(a arc) bool { return !p.alive[a.to] })
		s.calls = slices.DeleteFunc(s.calls, func(c call) bool { return !p.alive[c.to] || !p.begun[int(c.rule)] })
	}
}

// pruning marks backwards: from the final states to all that can reach one.
type pruning struct {
	alive   []bool // state can reach the end of its rule
	pending []int32
	arcsTo  [][]int32        // by state: where arcs to it come from
	callsTo [][]caller       // by state: the calls that return to it
	ruleAt  map[int32]int    // start state → rule
	begun   map[int]bool     // rule has a text that is not empty
	waiting map[int][]caller // by rule: its calls
}

type caller struct {
	from int32
	rule int
	to   int32
}

func (p *pruning) revive(s int32) {
	if !p.alive[s] {
		p.alive[s] = true
		p.pending = append(p.pending, s)
	}
}

// spread follows the ways into a state that turned out alive.
func (p *pruning) spread(s int32) {
	for _, from := range p.arcsTo[s] {
		p.wayFrom(from)
	}
	for _, c := range p.callsTo[s] {
		if p.begun[c.rule] {
			p.wayFrom(c.from)
		}
	}
}

// wayFrom notes that a symbol leads from a state to a living one. From a rule's first state that makes the rule one with
// a text, for which calls may have waited.
func (p *pruning) wayFrom(from int32) {
	p.revive(from)
	r, first := p.ruleAt[from]
	if !first || p.begun[r] {
		return
	}
	p.begun[r] = true
	for _, c := range p.waiting[r] {
		if p.alive[c.to] {
			p.wayFrom(c.from)
		}
	}
}

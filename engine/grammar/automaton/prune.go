package automaton

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
)

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
		for _, a := range b.states[i].Arcs {
			p.arcsTo[a.To] = append(p.arcsTo[a.To], from)
		}
		for _, c := range b.states[i].Calls {
			p.callsTo[c.To] = append(p.callsTo[c.To], caller{from, int(c.Rule), c.To})
			p.waiting[int(c.Rule)] = append(p.waiting[int(c.Rule)], caller{from, int(c.Rule), c.To})
		}
	}
	for i := range b.states {
		if b.states[i].Final {
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
		s.Arcs = slices.DeleteFunc(s.Arcs, func(a dfa.Arc) bool { return !p.alive[a.To] })
		s.Calls = slices.DeleteFunc(s.Calls, func(c dfa.Call) bool { return !p.alive[c.To] || !p.begun[int(c.Rule)] })
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

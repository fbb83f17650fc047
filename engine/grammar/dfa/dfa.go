// Package dfa makes deterministic automata of expressions: over bytes, with calls of rules, for package automaton, and over
// code points, where the patterns and lengths of a JSON schema have to be intersected.
package dfa

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

const (
	MaxStates  = 150_000   // states of the automata of all rules of a grammar
	maxSubsets = 8_000_000 // NFA states named by the states of one determinised rule, which is what that costs
)

// DFA is a deterministic finite automaton; calls of rules are symbols too. State 0 is the start.
type DFA struct{ States []State }

// State is a state of a DFA.
type State struct {
	Arcs  []Arc  // sorted, disjoint
	Calls []Call // at most one per rule
	Final bool
}

// Next returns the state after symbol r, or -1.
func (s *State) Next(r rune) int32 {
	for _, a := range s.Arcs {
		if a.Lo <= r && r <= a.Hi {
			return a.To
		}
	}
	return -1
}

// determinise makes a dfa of n between the states start and end; ok is false if it would be too large.
func determinise(n *nfa, start, end int32, meter *syntax.Meter) (d *DFA, ok bool) {
	s := subsets{nfa: n, end: end, meter: meter, d: &DFA{}, known: map[string]int32{}, mark: make([]int32, len(n.states))}
	s.add([]int32{start})
	for i := 0; i < len(s.d.States); i++ {
		s.expand(i)
		if len(s.d.States) > MaxStates || s.listed > maxSubsets || !meter.Spend(0) {
			return nil, false
		}
	}
	return s.d, true
}

// subsets is the subset construction: a state of the dfa stands for the nfa states it may be.
type subsets struct {
	nfa    *nfa
	end    int32
	d      *DFA
	known  map[string]int32 // the members, as bytes → dfa state
	lists  [][]int32        // the members of each dfa state that have arcs or calls, or are the end
	listed int              // total length of lists
	mark   []int32          // nfa state → the last closure it was met in
	marks  int32
	meter  *syntax.Meter
	key    []byte
}

// add returns the dfa state of the given nfa states and those they reach by empty transitions.
func (s *subsets) add(members []int32) int32 {
	s.marks++
	all := make([]int32, 0, 2*len(members))
	visit := func(n int32) {
		if s.mark[n] != s.marks {
			s.mark[n] = s.marks
			all = append(all, n)
		}
	}
	for _, n := range members {
		visit(n)
	}
	for i := 0; i < len(all); i++ {
		for _, n := range s.nfa.states[all[i]].empty {
			visit(n)
		}
	}
	s.meter.Spend(2 + len(all))
	all = slices.DeleteFunc(all, func(n int32) bool {
		state := &s.nfa.states[n]
		return n != s.end && len(state.arcs) == 0 && len(state.calls) == 0
	})
	slices.Sort(all)
	s.key = s.key[:0]
	for _, n := range all {
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(n))
	}
	if id, ok := s.known[string(s.key)]; ok {
		return id
	}
	id := int32(len(s.d.States))
	s.known[string(s.key)] = id
	s.d.States = append(s.d.States, State{Final: slices.Contains(all, s.end)})
	s.lists = append(s.lists, all)
	s.listed += len(all)
	return id
}

// expand finds the transitions of a dfa state.
func (s *subsets) expand(id int) {
	var arcs []Arc
	var calls []Call
	for _, n := range s.lists[id] {
		arcs = append(arcs, s.nfa.states[n].arcs...)
		calls = append(calls, s.nfa.states[n].calls...)
	}
	s.d.States[id].Calls = s.calls(calls)
	s.d.States[id].Arcs = s.arcs(arcs)
}

func (s *subsets) calls(all []Call) (out []Call) {
	slices.SortFunc(all, func(a, b Call) int { return cmp.Compare(a.Rule, b.Rule) })
	var to []int32
	for i, c := range all {
		to = append(to, c.To)
		if i+1 == len(all) || all[i+1].Rule != c.Rule {
			out = append(out, Call{c.Rule, s.add(to)})
			to = to[:0]
		}
	}
	return out
}

// arcs cuts overlapping arcs where one begins or ends, and joins neighbours that lead to the same state.
func (s *subsets) arcs(all []Arc) (out []Arc) {
	slices.SortFunc(all, func(a, b Arc) int { return cmp.Compare(a.Lo, b.Lo) })
	var open []Arc // those that cover the current symbol
	for at := rune(0); ; {
		open = slices.DeleteFunc(open, func(a Arc) bool { return a.Hi < at })
		if len(open) == 0 {
			if len(all) == 0 {
				return out
			}
			at = all[0].Lo
		}
		for len(all) > 0 && all[0].Lo == at {
			open, all = append(open, all[0]), all[1:]
		}
		hi := open[0].Hi
		to := make([]int32, len(open))
		for i, a := range open {
			hi, to[i] = min(hi, a.Hi), a.To
		}
		if len(all) > 0 {
			hi = min(hi, all[0].Lo-1)
		}
		next := s.add(to)
		if n := len(out); n > 0 && out[n-1].To == next && out[n-1].Hi+1 == at {
			out[n-1].Hi = hi
		} else {
			out = append(out, Arc{at, hi, next})
		}
		at = hi + 1
	}
}

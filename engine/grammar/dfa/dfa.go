// Package dfa makes deterministic automata of expressions: over bytes, with calls of rules, for package automaton, and over
// code points, where the patterns and lengths of a JSON schema have to be intersected.
package dfa

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
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
	s := subsets{nfa: n, end: end, meter: meter, d: &DFA{}, seed: maphash.MakeSeed(), known: map[uint64]int32{}, mark: make([]int32, len(n.states))}
	s.add([]int32{start})
	for i := 0; i < len(s.d.States); i++ {
		s.expand(i)
		if len(s.d.States) > MaxStates || s.listed > maxSubsets || !meter.Spend(0) {
			return nil, false
		}
	}
	return s.d, true
}

// subsets is the subset construction: a state of the dfa stands for the nfa states it may be. Of a large schema these are millions in all, so that what is
// needed for one state alone is in memory that the next one uses again: garbage would be collected at the cost of everybody's answers.
type subsets struct {
	nfa    *nfa
	end    int32
	d      *DFA
	seed   maphash.Seed
	known  map[uint64]int32 // the members' hash → the last dfa state that has it
	before []int32          // dfa state → one with the same hash, or -1
	lists  [][]int32        // the members of each dfa state that have arcs or calls, or are the end, in order
	room   []int32          // for the next lists
	listed int              // total length of lists
	mark   []int32          // nfa state → the last closure it was met in
	marks  int32
	meter  *syntax.Meter

	all, to   []int32 // scratch of add; of calls and arcs
	key       []byte
	arcList   []Arc // scratch of expand and arcs
	open, out []Arc
	callList  []Call
}

// add returns the dfa state of the given nfa states and those they reach by empty transitions.
func (s *subsets) add(members []int32) int32 {
	s.marks++
	all := s.all[:0]
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
	s.all = all
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
	hash := maphash.Bytes(s.seed, s.key)
	same, ok := s.known[hash]
	if !ok {
		same = -1
	}
	for id := same; id >= 0; id = s.before[id] {
		if slices.Equal(s.lists[id], all) {
			return id
		}
	}
	id := int32(len(s.d.States))
	s.known[hash] = id
	s.before = append(doubled(s.before), same)
	s.d.States = append(doubled(s.d.States), State{Final: slices.Contains(all, s.end)})
	s.lists = append(doubled(s.lists), s.keep(all))
	s.listed += len(all)
	return id
}

// keep copies a list to where it stays.
func (s *subsets) keep(list []int32) []int32 {
	const chunk = 1 << 14
	if len(s.room) < len(list) {
		s.room = make([]int32, max(chunk, len(list)))
	}
	kept := s.room[:len(list):len(list)]
	s.room = s.room[len(list):]
	copy(kept, list)
	return kept
}

// expand finds the transitions of a dfa state.
func (s *subsets) expand(id int) {
	arcs, calls := s.arcList[:0], s.callList[:0]
	for _, n := range s.lists[id] {
		arcs = append(arcs, s.nfa.states[n].arcs...)
		calls = append(calls, s.nfa.states[n].calls...)
	}
	s.arcList, s.callList = arcs, calls
	s.d.States[id].Calls = s.calls(calls)
	s.d.States[id].Arcs = s.arcs(arcs)
}

func (s *subsets) calls(all []Call) (out []Call) {
	slices.SortFunc(all, func(a, b Call) int { return cmp.Compare(a.Rule, b.Rule) })
	to := s.to[:0]
	for i, c := range all {
		to = append(to, c.To)
		if i+1 == len(all) || all[i+1].Rule != c.Rule {
			out = append(out, Call{c.Rule, s.add(to)})
			to = to[:0]
		}
	}
	s.to = to
	return out
}

// arcs cuts overlapping arcs where one begins or ends, and joins neighbours that lead to the same state.
func (s *subsets) arcs(all []Arc) []Arc {
	slices.SortFunc(all, func(a, b Arc) int { return cmp.Compare(a.Lo, b.Lo) })
	out, open := s.out[:0], s.open[:0] // open covers the current symbol
	for at := rune(0); ; {
		open = slices.DeleteFunc(open, func(a Arc) bool { return a.Hi < at })
		if len(open) == 0 {
			if len(all) == 0 {
				s.out, s.open = out, open
				return slices.Clone(out)
			}
			at = all[0].Lo
		}
		for len(all) > 0 && all[0].Lo == at {
			open, all = append(open, all[0]), all[1:]
		}
		hi := open[0].Hi
		to := s.to[:0]
		for _, a := range open {
			hi, to = min(hi, a.Hi), append(to, a.To)
		}
		s.to = to
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

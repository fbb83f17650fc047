package automaton

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// stack is what waits below a rule that is being read: the states to go on from when it ends. There may be several,
// because the same rule may have been called from several states at the same place of the text; each knows its own stack
// below. So the stacks form a graph (Tomita's graph-structured stack) and never more of it than the text has places.
type stack struct {
	id     uint32
	frames []frame // sorted
}

// frame is a state of a rule with its counter, if it has one, and the stack below the rule.
type frame struct {
	state int32
	count int32
	under *stack
}

// Counters of a context that no token takes to a bound: they need not count.
const (
	pastMin  int32 = -1 // the lower bound is behind
	belowMin int32 = -2 // it is ahead
)

func (f frame) compare(g frame) int {
	return cmp.Or(cmp.Compare(f.state, g.state), cmp.Compare(f.count, g.count), cmp.Compare(f.under.id, g.under.id))
}

// The two stacks without frames. Below the root is the end of the text; below what a context knows is anything.
var (
	bottom  = &stack{id: 0}
	unknown = &stack{id: 1}
)

// position is what may stand at one place of a text: a set of states, all waiting for a byte, on their stacks. Positions
// and stacks do not change, and equal ones are the same as long as the automaton has not forgotten them.
type position struct {
	age    int     // of the automaton's memory, when it was made
	items  []frame // sorted; no counters
	done   bool    // the text may end here
	popped bool    // a rule on the unknown stack may end here

	visits      int         // by walks, up to tuning.visits
	loop        byteKinds   // the bytes that lead from here to here, once there were as many
	next        []int32     // by byte class: the index of the position after such a byte, or 0 if that is not known yet
	allowed     []*tokenSet // the tokens that may come here, once known is set
	known       bool
	forced      []int32 // the tokens that must come here, once forcedKnown is set
	forcedKnown bool
}

// lives reports whether the text so far can be the beginning of one that satisfies the grammar.
func (p *position) lives() bool { return len(p.items) > 0 || p.done || p.popped }

// flow works out positions. It is the part of an Automaton that follows the stacks, and holds its scratch memory.
type flow struct {
	prog    *program
	stacks  map[string]*stack
	lastID  uint32
	work    []frame
	seen    map[frame]bool
	waiting [][]frame // by rule: the states that called it at this place and go on after it
	called  []int32   // the rules that are called at this place, sorted
	key     []byte
	found   position // the result
}

func newFlow(p *program) *flow {
	return &flow{prog: p, seen: map[frame]bool{}, waiting: make([][]frame, len(p.starts))}
}

// closure is the epsilon closure: it finds all that may stand at the place of the text at which the states in work have arrived: it ends the rules
// that are final and begins the rules that are called. The result is in f.found; ok is false if there is too much of it.
//
// The two can be done one after the other because a call never stands for the empty text (the automata have a way around
// it): what begins here does not end here. And as a rule stands before those it can begin with, all calls of a rule at
// this place are known when it is reached.
func (f *flow) closure() (ok bool) {
	f.found = position{items: f.found.items[:0]}
	f.called = f.called[:0]
	f.end()
	for i := 0; i < len(f.called); i++ {
		rule := f.called[i]
		f.begin(frame{state: f.prog.starts[rule], under: f.stack(f.waiting[rule])})
		f.waiting[rule] = f.waiting[rule][:0]
	}
	slices.SortFunc(f.found.items, frame.compare)
	f.found.items = slices.Compact(f.found.items)
	return len(f.found.items) <= maxStacks && len(f.work) <= maxStacks
}

// end follows the rules that may end here down their stacks.
func (f *flow) end() {
	clear(f.seen)
	for i := 0; i < len(f.work) && len(f.work) <= maxStacks; i++ {
		x := f.work[i]
		if f.prog.final(x) {
			switch x.under {
			case bottom:
				f.found.done = true
			case unknown:
				f.found.popped = true
			}
			for _, below := range x.under.frames {
				if !f.seen[below] {
					f.seen[below] = true
					f.work = append(f.work, below)
				}
			}
		}
		f.begin(x)
	}
}

// begin keeps a state if it waits for a byte, and notes the rules that it calls.
func (f *flow) begin(x frame) {
	s := &f.prog.states[x.state]
	if len(s.Arcs) > 0 {
		f.found.items = append(f.found.items, x)
	}
	if s.times == nil {
		for _, c := range s.Calls {
			f.call(c.Rule, frame{state: c.To, under: x.under})
		}
	} else if len(s.Calls) > 0 && x.count < 0 {
		f.call(s.Calls[0].Rule, x)
	} else if len(s.Calls) > 0 && (s.times.Max < 0 || int(x.count) < s.times.Max) {
		most := max(s.times.Min, s.times.Max) // without an upper bound, counting ends at the lower one
		f.call(s.Calls[0].Rule, frame{x.state, min(x.count+1, int32(most)), x.under})
	}
}

// call notes a call of a rule and where it returns to. If nothing can follow there but the end of the caller, the return
// is to where the caller returns: so lists written as a rule that ends in itself take no stack.
func (f *flow) call(rule int32, to frame) {
	if len(f.waiting[rule]) == 0 {
		at, _ := slices.BinarySearch(f.called, rule)
		f.called = slices.Insert(f.called, at, rule)
	}
	if len(to.under.frames) > 0 && f.prog.ended(to) {
		f.waiting[rule] = append(f.waiting[rule], to.under.frames...)
	} else {
		f.waiting[rule] = append(f.waiting[rule], to)
	}
}

// final reports whether a rule may end in this state.
func (p *program) final(x frame) bool {
	s := &p.states[x.state]
	return s.Final && (s.times == nil || int(x.count) >= s.times.Min && x.count >= 0 || x.count == pastMin)
}

// ended reports whether a rule must end in this state.
func (p *program) ended(x frame) bool {
	s := &p.states[x.state]
	if s.times != nil {
		return len(s.Calls) == 0 || s.times.Max >= 0 && int(x.count) >= s.times.Max
	}
	return s.Final && len(s.Arcs) == 0 && len(s.Calls) == 0
}

// stack returns the stack of these frames.
func (f *flow) stack(frames []frame) *stack {
	slices.SortFunc(frames, frame.compare)
	frames = slices.Compact(frames)
	f.key = appendFrames(f.key[:0], frames)
	if s := f.stacks[string(f.key)]; s != nil {
		return s
	}
	f.lastID++
	s := &stack{id: f.lastID, frames: slices.Clone(frames)}
	f.stacks[string(f.key)] = s
	return s
}

func appendFrames(key []byte, frames []frame) []byte {
	for _, x := range frames {
		key = binary.LittleEndian.AppendUint32(key, uint32(x.state))
		key = binary.LittleEndian.AppendUint32(key, uint32(x.count))
		key = binary.LittleEndian.AppendUint32(key, x.under.id)
	}
	return key
}

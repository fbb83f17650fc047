package automaton

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// program is a grammar ready to run: the automata of its rules, in one list of states.
type program struct {
	states  []state
	starts  []int32    // the first state of each rule; a rule that can begin with another stands before it
	root    int32      // rule
	short   []bool     // by state: it is of a counted rule that is a few bytes at most
	class   [256]uint8 // bytes with the same class are never told apart
	example []byte     // a byte of each class
}

// state is a state of one rule's automaton. If times is set it is a counter instead: it calls times.body (calls[0]) up
// to max times, and is final from min times on.
type state struct {
	dfa.State
	times *syntax.Times
}

// newProgram makes the automata of the rules that the root needs.
func newProgram(g *syntax.Grammar, t tuning, meter *syntax.Meter) (*program, error) {
	b := builder{rules: newRuleSet(g, t, meter)}
	if err := b.build(g.Root); err != nil {
		return nil, err
	}
	b.prune()
	if b.dead(g.Root) && !b.rules.empty[g.Root] {
		return nil, errors.New("grammar: no text at all satisfies it; some of its parts exclude each other or never end")
	}
	order, err := b.order()
	if err != nil {
		return nil, err
	}
	return b.assemble(g.Root, order), nil
}

// builder collects the states of rules as they are needed. Calls name rules by their index in the rule set until
// assemble.
type builder struct {
	rules  *ruleSet
	states []state
	start  map[int]int32 // by rule
	made   []int         // the rules in start, in the order they were made
}

func (b *builder) build(root int) error {
	b.start = map[int]int32{}
	pending := []int{root}
	for len(pending) > 0 {
		r := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, ok := b.start[r]; ok {
			continue
		}
		d, err := b.automaton(r)
		if err != nil {
			return err
		}
		base := int32(len(b.states))
		b.start[r] = base
		b.made = append(b.made, r)
		if len(b.states)+len(d.States) > dfa.MaxStates || len(b.rules.rules) > syntax.MaxRules {
			return tooManyStates("the grammar")
		}
		for _, s := range d.States {
			if !b.rules.meter.Spend(1) {
				return b.rules.meter.Err()
			}
			for i := range s.Arcs {
				s.Arcs[i].To += base
			}
			for i := range s.Calls {
				pending = append(pending, int(s.Calls[i].Rule))
				s.Calls[i].To += base
			}
			b.states = append(b.states, state{s, b.rules.rules[r].Times})
		}
	}
	return nil
}

func (b *builder) automaton(r int) (*dfa.DFA, error) {
	if t := b.rules.rules[r].Times; t != nil {
		s := dfa.State{Final: true}
		if t.Max != 0 {
			s.Calls = []dfa.Call{{Rule: int32(t.Body), To: 0}}
		}
		return &dfa.DFA{States: []dfa.State{s}}, nil
	}
	if d, ok := dfa.Lower(b.rules.rules[r].Body, b.rules); ok {
		return d, nil
	}
	return nil, tooManyStates(fmt.Sprintf("%q", b.rules.rules[r].Name))
}

// dead tells, after prune, whether a rule has no text but perhaps the empty one.
func (b *builder) dead(rule int) bool {
	s := &b.states[b.start[rule]]
	return len(s.Arcs) == 0 && len(s.Calls) == 0
}

// order lists the made rules so that a rule stands before those it can begin with. There is none if a rule can begin
// with itself.
func (b *builder) order() ([]int, error) {
	const (
		unseen = iota
		open
		done
	)
	status := map[int]int{}
	var order, path []int
	var visit func(r int) error
	visit = func(r int) error {
		switch status[r] {
		case done:
			return nil
		case open:
			return b.leftRecursion(append(path[slices.Index(path, r):], r))
		}
		status[r] = open
		path = append(path, r)
		for _, c := range b.states[b.start[r]].Calls {
			if err := visit(int(c.Rule)); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		status[r] = done
		order = append(order, r)
		return nil
	}
	for _, r := range b.made {
		if err := visit(r); err != nil {
			return nil, err
		}
	}
	slices.Reverse(order)
	return order, nil
}

func (b *builder) leftRecursion(cycle []int) error {
	var names []string
	for i, r := range cycle {
		if i < 8 || i == len(cycle)-1 {
			names = append(names, fmt.Sprintf("%q", b.rules.rules[r].Name))
		}
	}
	return fmt.Errorf("grammar: rule %s begins with itself (%s); let something come first, or write it as a repetition", names[0], strings.Join(names, " → "))
}

// assemble numbers the rules by the order.
func (b *builder) assemble(root int, order []int) *program {
	p := &program{states: b.states, starts: make([]int32, len(order))}
	number := map[int]int32{}
	for i, r := range order {
		number[r] = int32(i)
		p.starts[i] = b.start[r]
	}
	p.root = number[root]
	for i := range p.states {
		for j := range p.states[i].Calls {
			c := &p.states[i].Calls[j]
			c.Rule = number[int(c.Rule)]
		}
	}
	p.classify()
	p.findShort()
	return p
}

// findShort marks the states of what counters repeat, if it calls nothing and comes by no state twice.
func (p *program) findShort() {
	p.short = make([]bool, len(p.states))
	for i := range p.states {
		if s := &p.states[i]; s.times != nil && len(s.Calls) > 0 {
			var states []int32
			if p.straight(p.starts[s.Calls[0].Rule], maxShort, &states) {
				for _, x := range states {
					p.short[x] = true
				}
			}
		}
	}
}

// maxShort is the most bytes of a repeated part that counts as short: those of an escaped surrogate pair.
const maxShort = 12

// straight collects the states that can be reached from one, if none of them calls a rule or is further than so many
// bytes.
func (p *program) straight(from int32, bytes int, states *[]int32) bool {
	s := &p.states[from]
	if bytes < 0 || len(s.Calls) > 0 || s.times != nil || len(*states) > 256 {
		return false
	}
	if slices.Contains(*states, from) {
		return true
	}
	*states = append(*states, from)
	for _, a := range s.Arcs {
		if !p.straight(a.To, bytes-1, states) {
			return false
		}
	}
	return true
}

// classify finds the bytes that no arc tells apart.
func (p *program) classify() {
	var cut [257]bool // a class begins here
	cut[0] = true
	for i := range p.states {
		for _, a := range p.states[i].Arcs {
			cut[a.Lo], cut[a.Hi+1] = true, true
		}
	}
	for b := range 256 {
		if cut[b] {
			p.example = append(p.example, byte(b))
		}
		p.class[b] = uint8(len(p.example) - 1)
	}
}

// Package automaton compiles a grammar for a vocabulary and follows texts through it: a mask of the tokens that may come next,
// the tokens that must, and whether the text is complete.
package automaton

import (
	"errors"
	"sync"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Automaton is a grammar joined with a vocabulary. It is made once and shared: any number of goroutines may have
// matchers of it. What it works out it keeps, up to about 64 MiB; then it forgets everything and starts over.
type Automaton struct {
	vocab *Vocabulary
	prog  *program
	tuning
	unenforced []string

	mu sync.Mutex // guards the rest
	flow
	known
	work int     // steps since the last begin
	yes  []int32 // scratch of walk

	meter *syntax.Meter // of compiling; nil once that is over
}

// known is what an automaton has worked out so far.
type known struct {
	age       int
	positions []*position             // 0 is unused, 1 is dead
	index     map[string]int32        // the contents of a position → its place in positions
	tops      map[contextKey]*context // by the top of the stack alone
	size      int                     // bytes, about
}

// dead is the index of the position where no text of the grammar goes on.
const dead = 1

// Compile makes the automaton of a grammar for a vocabulary. The error says what is wrong with the grammar: no
// text satisfies it, a rule begins with itself, or it needs too many states.
func Compile(g *syntax.Grammar, v *Vocabulary) (*Automaton, error) {
	return compile(g, v, defaultTuning(), nil)
}

func compile(g *syntax.Grammar, v *Vocabulary, t tuning, meter *syntax.Meter) (*Automaton, error) {
	p, err := newProgram(g, t, meter)
	if err != nil {
		return nil, err
	}
	a := &Automaton{vocab: v, prog: p, tuning: t, unenforced: g.Unenforced, flow: *newFlow(p), meter: meter}
	a.lastID = unknown.id
	a.forget()
	return a, nil
}

// Unenforced is what the grammar's source says and the automaton does not enforce.
func (a *Automaton) Unenforced() []string { return a.unenforced }

// Bytes is about how much memory the automaton takes now.
func (a *Automaton) Bytes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size + 48*len(a.prog.states)
}

// forget empties the memory. Matchers keep positions of the old memory; adopt brings them back.
func (a *Automaton) forget() {
	a.known = known{
		age:       a.age + 1,
		positions: make([]*position, 1),
		index:     map[string]int32{},
		tops:      map[contextKey]*context{},
	}
	a.stacks = map[string]*stack{}
	a.keep(position{})
	d := a.positions[dead]
	d.next = make([]int32, len(a.prog.example))
	for i := range d.next {
		d.next[i] = dead
	}
}

// begin prepares for the work of one call.
func (a *Automaton) begin() {
	a.work = 0
	if a.size > a.memory {
		a.forget()
	}
}

// keep returns the index of the position with the contents of p.
func (a *Automaton) keep(p position) int32 {
	var flags byte
	if p.done {
		flags |= 1
	}
	if p.popped {
		flags |= 2
	}
	a.key = appendFrames(append(a.key[:0], flags), p.items)
	if i, ok := a.index[string(a.key)]; ok {
		return i
	}
	i := int32(len(a.positions))
	a.positions = append(a.positions, &position{
		age: a.age, items: append([]frame(nil), p.items...), done: p.done, popped: p.popped,
	})
	a.index[string(a.key)] = i
	a.size += 200 + 40*len(p.items)
	return i
}

// adopt returns p as the present memory knows it.
func (a *Automaton) adopt(p *position) *position {
	if p.age == a.age {
		return p
	}
	return a.positions[a.keep(*p)]
}

var (
	errAmbiguous = errors.New("grammar: the text so far can be read in too many ways at once; make the grammar less ambiguous, or its repetitions within repetitions shorter")
	errWork      = errors.New("grammar: finding the tokens that may come next takes too long; make the grammar less ambiguous, or its repetitions within repetitions shorter")
)

// start returns the position at the beginning of a text.
func (a *Automaton) start() (*position, error) {
	a.flow.work = append(a.flow.work[:0], frame{state: a.prog.starts[a.prog.root], under: bottom})
	i, err := a.arrive()
	return a.positions[i], err
}

// stepWork is what a state costs in closure, in the steps of a walk over known positions.
const stepWork = 50

// arrive closes over the states in flow.work.
func (a *Automaton) arrive() (int32, error) {
	if !a.closure() {
		return dead, errAmbiguous
	}
	a.work += stepWork * (1 + len(a.flow.work) + len(a.found.items))
	return a.keep(a.found), nil
}

// step returns the index of the position after a byte of the given class.
func (a *Automaton) step(p *position, class uint8) (int32, error) {
	if p.next == nil {
		p.next = make([]int32, len(a.prog.example))
		a.size += 4 * len(p.next)
	}
	if p.next[class] != 0 {
		return p.next[class], nil
	}
	b := rune(a.prog.example[class])
	a.flow.work = a.flow.work[:0]
	for _, x := range p.items {
		if to := a.prog.states[x.state].Next(b); to >= 0 {
			a.flow.work = append(a.flow.work, frame{state: to, under: x.under})
		}
	}
	i, err := a.arrive()
	if err == nil {
		p.next[class] = i
	}
	return i, err
}

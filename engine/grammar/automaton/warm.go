package automaton

import "slices"

// warmWork bounds what warm does, in steps as maxWork counts them: a tenth of a second.
const warmWork = 20_000_000

// warm computes the contexts of every state that a text can come to, as far as the top of the stack or a little more decides
// them, so that the first request with a grammar does not wait for them token by token. States that are too ambiguous are
// left to the texts that reach them.
func (a *Automaton) warm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	w := warming{Automaton: a, callers: make([][]frame, len(a.prog.starts)), owner: a.prog.owners()}
	w.findCallers()
	for i := range a.prog.states {
		if len(a.prog.states[i].Arcs) == 0 {
			continue
		}
		for band := range a.vocab.bands {
			top := frame{state: int32(i)}
			if w.full() {
				return
			}
			if c, err := a.top(top, band); err == nil {
				w.warmDeeper(c, top, band, 2)
			}
		}
	}
}

// warming knows where rules are called.
type warming struct {
	*Automaton
	callers [][]frame // by rule: the states to which its calls return
	owner   []int32   // by state: its rule
}

func (w *warming) full() bool { return w.work > warmWork || w.size > w.memory/2 }

// owners finds the rule of every state: a rule's states follow its first.
func (p *program) owners() []int32 {
	owner := make([]int32, len(p.states))
	byStart := make([]int32, len(p.starts))
	for i := range byStart {
		byStart[i] = int32(i)
	}
	slices.SortFunc(byStart, func(a, b int32) int { return int(p.starts[a] - p.starts[b]) })
	for i, r := range byStart {
		end := len(owner)
		if i+1 < len(byStart) {
			end = int(p.starts[byStart[i+1]])
		}
		for s := int(p.starts[r]); s < end; s++ {
			owner[s] = r
		}
	}
	return owner
}

func (w *warming) findCallers() {
	for i := range w.prog.states {
		s := &w.prog.states[i]
		for _, c := range s.Calls {
			f := frame{state: c.To}
			if s.times != nil {
				f = frame{state: int32(i), count: 1}
			}
			w.callers[c.Rule] = append(w.callers[c.Rule], f)
		}
	}
}

// deeper works out what a context leaves open with the frames that may lie below a state, if it is much.
func (w *warming) warmDeeper(c *context, above frame, band, levels int) {
	if c.rest == nil || len(c.rest.nodes) < w.warmNodes || levels == 0 {
		return
	}
	for _, f := range w.below(w.owner[above.state], nil) {
		if w.full() {
			return
		}
		if next, err := w.next(c, f, band); err == nil {
			w.warmDeeper(next, f, band, levels-1)
		}
	}
}

// below returns the frames that may lie below a rule: as flow.call has it, those at their end give way to what is below
// them.
func (w *warming) below(rule int32, seen []int32) (frames []frame) {
	for _, f := range w.callers[rule] {
		if !w.prog.ended(f) {
			frames = append(frames, f)
		} else if up := w.owner[f.state]; !slices.Contains(seen, up) {
			frames = append(frames, w.below(up, append(seen, rule))...)
		}
	}
	return frames
}

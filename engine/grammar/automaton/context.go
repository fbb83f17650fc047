package automaton

// context is the top of a stack: a state and some frames below it, with anything beneath. What it says of tokens holds
// wherever that top is found.
type context struct {
	top      int32
	frames   []frame // below the top, from above; without stacks
	accepted *tokenSet
	rest     *trie // the tokens for which what lies beneath matters; nil if there are none
	deeper   map[contextKey]*context
}

// contextKey names a context among those with one frame less known: the last frame known, or in the first place the top.
// Counters are named by how far they are from their bounds, which for far ones is all the same.
type contextKey struct {
	state, need, left int32
	band              int32
}

// keyOf names a frame for tokens of at most so many bytes, each of which counts a counter up at most once.
func (a *Automaton) keyOf(f frame, longest, band int) contextKey {
	k := contextKey{state: f.state, band: int32(band)}
	if t := a.prog.states[f.state].times; t != nil {
		if calls := a.prog.states[f.state].Calls; len(calls) > 0 {
			k.state = -1 - calls[0].Rule // counters of the same rule are alike
		}
		far := int32(longest + 1)
		k.need = min(max(int32(t.Min)-f.count, 0), far)
		k.left = far
		if t.Max >= 0 {
			k.left = min(int32(t.Max)-f.count, far)
		}
	}
	return k
}

// uncounted is a frame whose counter, if tokens of so many bytes cannot take it to a bound, stands still: the text then
// comes by the same positions again.
func (a *Automaton) uncounted(f frame, k contextKey, longest int) frame {
	far := int32(longest + 1)
	switch {
	case a.prog.states[f.state].times == nil || k.left < far:
	case k.need == 0:
		f.count = pastMin
	case k.need == far:
		f.count = belowMin
	}
	return f
}

// allow finds the tokens that may come at p.
func (a *Automaton) allow(p *position) error {
	if p.known {
		return nil
	}
	var sets []*tokenSet
	for i := range a.vocab.bands {
		for _, x := range p.items {
			c, err := a.top(x, i)
			if err != nil {
				return err
			}
			d := descent{a: a, band: i, top: x, left: a.maxContexts, sets: sets}
			if err := d.down(c, x.under); err != nil {
				return err
			}
			sets = d.sets
		}
	}
	p.allowed, p.known = sets, true
	a.size += 16 * len(sets)
	return nil
}

// top returns the context of a state about whose stack nothing is known.
func (a *Automaton) top(x frame, band int) (c *context, err error) {
	key := contextKey{state: x.state, band: int32(band)}
	if c = a.tops[key]; c == nil {
		if c, err = a.newContext(nil, x, a.vocab.bands[band].trie); err == nil {
			a.tops[key] = c
		}
	}
	return c, err
}

// next returns the context that knows one frame more than c, which leaves something open.
func (a *Automaton) next(c *context, f frame, band int) (next *context, err error) {
	longest := a.vocab.bands[band].longest
	key := a.keyOf(f, longest, band)
	if next = c.deeper[key]; next == nil {
		if next, err = a.newContext(c, a.uncounted(f, key, longest), c.rest); err == nil {
			c.deeper[key] = next
		}
	}
	return next, err
}

// descent collects the tokens that one state of a position allows, by contexts that know more and more of its stack.
type descent struct {
	a    *Automaton
	band int
	top  frame
	left int // contexts that may be used yet
	sets []*tokenSet
}

func (d *descent) down(c *context, under *stack) error {
	if len(c.accepted.ids) > 0 || c.accepted.bits != nil {
		d.sets = append(d.sets, c.accepted)
	}
	if c.rest == nil {
		return nil
	}
	for _, f := range under.frames {
		if d.left--; d.left < 0 {
			return d.wholeStack(c.rest)
		}
		next, err := d.a.next(c, f, d.band)
		if err != nil {
			return err
		}
		if err := d.down(next, f.under); err != nil {
			return err
		}
	}
	return nil
}

// wholeStack tries tokens on the whole stack.
func (d *descent) wholeStack(tokens *trie) error {
	accepted, _, err := d.a.walk(tokens, d.a.keep(position{items: []frame{d.top}}))
	if err == nil {
		d.sets = append(d.sets, accepted)
		d.a.size += accepted.bytes()
	}
	return err
}

// newContext tries tokens on the frames of c, with one more; without a c on the frame as the top.
func (a *Automaton) newContext(c *context, f frame, tokens *trie) (*context, error) {
	f.under = nil
	n := &context{deeper: map[contextKey]*context{}}
	if c == nil {
		if n.top = f.state; a.prog.short[f.state] {
			n.accepted, n.rest = &tokenSet{}, tokens // nearly all tokens reach below it
			return n, nil
		}
	} else {
		n.top = c.top
		n.frames = append(append(n.frames, c.frames...), f)
	}
	under := unknown
	for i := len(n.frames) - 1; i >= 0; i-- {
		f := n.frames[i]
		f.under = under
		under = a.stack([]frame{f})
	}
	accepted, rest, err := a.walk(tokens, a.keep(position{items: []frame{{state: n.top, under: under}}}))
	if err != nil {
		return nil, err
	}
	n.accepted, n.rest = accepted, rest
	a.size += 200 + 16*len(n.frames) + n.accepted.bytes()
	if rest != nil {
		a.size += 32 * len(rest.nodes)
	}
	return n, nil
}

// meterSteps is after how many steps of walks the meter of compiling is told, a power of two. About so many make a unit of it.
const (
	meterSteps   = 1 << 14
	stepsPerUnit = 32
)

// walk tries all tokens of a trie from a position. accepted are those that can be read there; rest are those that reach
// below the known stack and were not accepted before.
func (a *Automaton) walk(t *trie, start int32) (accepted *tokenSet, rest *trie, err error) {
	var (
		yes    = a.yes[:0]
		maybe  = subtrie{from: t}
		at     = make([]*position, t.deepest+1) // by depth
		popped = make([]bool, t.deepest+1)      // an earlier byte of the token ended the known stack
	)
	at[0] = a.positions[start]
	for i := int32(0); int(i) < len(t.nodes); {
		node := &t.nodes[i]
		d := node.depth
		class := a.prog.class[node.byte]
		var next int32
		if known := at[d-1].next; known != nil {
			next = known[class]
		}
		if next == 0 {
			if next, err = a.step(at[d-1], class); err != nil {
				return nil, nil, err
			}
			if a.size > 4*a.memory {
				return nil, nil, errWork
			}
		}
		if a.work++; a.work > maxWork || a.work&(meterSteps-1) == 0 && !a.meter.Spend(meterSteps/stepsPerUnit) {
			return nil, nil, errWork
		}
		if next == dead && !popped[d-1] {
			i = node.end
			continue
		}
		p := a.positions[next]
		at[d] = p
		popped[d] = popped[d-1] || p.popped
		maybe.visit(i)
		if node.token >= 0 {
			if next != dead {
				yes = append(yes, node.token)
			} else {
				maybe.add()
			}
		}
		if i++; i == node.end || next == dead {
			continue
		}
		if p.visits < a.loopVisits {
			if p.visits++; p.visits == a.loopVisits {
				if p.loop, err = a.loops(p); err != nil {
					return nil, nil, err
				}
			}
		}
		if t.below[i-1]&^p.loop == 0 { // all that goes on from here stays here
			yes = append(yes, t.tokens[t.first[i]:t.first[node.end]]...)
			i = node.end
		}
	}
	a.yes = yes
	if len(maybe.nodes) > 0 {
		maybe.close()
		rest = &maybe.trie
	}
	return a.vocab.newTokenSet(yes), rest, nil
}

package grammar

import "bytes"

// maxForced is how many bytes ahead Forced looks.
const maxForced = 4096

// Forced returns the bytes that must come next, because the grammar allows nothing else; none if there is a choice or
// the text may end.
func (m *Matcher) Forced() []byte {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.ended {
		return nil
	}
	m.a.begin()
	m.at = m.a.adopt(m.at)
	text, _ := m.a.forced(m.at)
	return text
}

// ForcedTokens returns tokens that may be appended without asking the model: they spell the forced bytes as encode
// splits them, or if encode is nil each as long as can be. They may stop short of the forced bytes: the last of those may
// belong to a token that goes on with something the model is to choose.
func (m *Matcher) ForcedTokens(encode func([]byte) []int32) []int32 {
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.ended {
		return nil
	}
	a.begin()
	m.at = a.adopt(m.at)
	text, end := a.forced(m.at)
	if len(text) == 0 {
		return nil
	}
	if encode == nil {
		encode = a.vocab.longestFirst
	}
	tokens := encode(text)
	for i, t := range tokens {
		if int(t) < 0 || int(t) >= a.vocab.size || len(a.vocab.bytes[t]) == 0 || !bytes.HasPrefix(text, a.vocab.bytes[t]) || a.straddles(text, end) {
			return tokens[:i]
		}
		text = text[len(a.vocab.bytes[t]):]
	}
	return tokens
}

// forced returns the bytes that must follow p, and the position after them.
func (a *Automaton) forced(p *position) (text []byte, end *position) {
	for len(text) < maxForced {
		b, ok := a.only(p)
		if !ok {
			break
		}
		i, err := a.step(p, a.prog.class[b])
		if err != nil {
			break
		}
		p = a.positions[i]
		text = append(text, b)
	}
	return text, p
}

// only returns the byte that must come at p, if it is one.
func (a *Automaton) only(p *position) (b byte, ok bool) {
	if p.done {
		return 0, false
	}
	for i, x := range p.items {
		arcs := a.prog.states[x.state].arcs
		if len(arcs) > 1 || arcs[0].lo != arcs[0].hi || i > 0 && byte(arcs[0].lo) != b {
			return 0, false
		}
		b = byte(arcs[0].lo)
	}
	return b, len(p.items) > 0
}

// straddles tells whether a token could begin with all of text and go on from the position after it.
func (a *Automaton) straddles(text []byte, end *position) bool {
	for _, band := range a.vocab.bands {
		t := band.trie
		root := int32(-1)
		t.path(text, func(i int32) {
			if int(t.nodes[i].depth) == len(text) {
				root = i
			}
		})
		if root < 0 {
			continue
		}
		at := make([]*position, t.deepest+1)
		at[len(text)] = end
		for i := root + 1; i < t.nodes[root].end; {
			n := &t.nodes[i]
			next, err := a.step(at[n.depth-1], a.prog.class[n.byte])
			if err != nil {
				return true
			}
			if next == dead {
				i = n.end
				continue
			}
			if n.token >= 0 {
				return true
			}
			at[n.depth] = a.positions[next]
			i++
		}
	}
	return false
}

// path calls f with the nodes along text, as far as there are any.
func (t *trie) path(text []byte, f func(node int32)) {
	i, end := int32(-1), int32(len(t.nodes))
	for _, b := range text {
		for i++; i < end && t.nodes[i].byte != b; {
			i = t.nodes[i].end
		}
		if i >= end {
			return
		}
		end = t.nodes[i].end
		f(i)
	}
}

// longestFirst splits a text into tokens, the longest that fits each time. It stops where none fits.
func (v *Vocabulary) longestFirst(text []byte) (tokens []int32) {
	for len(text) > 0 {
		best := int32(-1)
		for _, b := range v.bands { // from the shortest tokens to the longest
			b.trie.path(text, func(i int32) {
				if t := b.trie.nodes[i].token; t >= 0 {
					best = t
				}
			})
		}
		if best < 0 {
			break
		}
		tokens = append(tokens, best)
		text = text[len(v.bytes[best]):]
	}
	return tokens
}

package automaton

import (
	"bytes"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// maxForced is how many bytes ahead Forced looks.
const maxForced = 4096

// Forced returns the tokens that may be appended without asking the model, because the grammar allows no other text.
// They may stop short of all that is certain: the end of it may belong to a token that goes on with something the model
// is to choose. The result must not be changed.
func (m *Matcher) Forced() []int32 {
	if m.ended {
		return nil
	}
	a := m.a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	m.at = a.adopt(m.at)
	if p := m.at; !p.forcedKnown {
		text, end := a.forced(p)
		p.forced, p.forcedKnown = a.spell(text, end), true
		a.size += 4 * len(p.forced)
	}
	return m.at.forced
}

// spell splits forced text, after which the automaton is at end, into tokens.
func (a *Automaton) spell(text []byte, end *position) (tokens []int32) {
	for len(text) > 0 {
		if text[0] == syntax.MarkerByte {
			n := 2 + bytes.IndexByte(text[1:], syntax.MarkerByte)
			id, ok := a.vocab.special[string(text[:n])]
			if !ok {
				return tokens // which special token it is, is not certain yet
			}
			tokens, text = append(tokens, id), text[n:]
			continue
		}
		n := bytes.IndexByte(text, syntax.MarkerByte)
		last := n < 0
		if last {
			n = len(text)
		}
		for _, id := range a.vocab.split(text[:n]) {
			if last && a.straddles(text, end) {
				return tokens
			}
			size := len(a.vocab.bytes[id])
			tokens, text, n = append(tokens, id), text[size:], n-size
		}
		if n > 0 {
			return tokens // nothing spells it
		}
	}
	return tokens
}

// split returns the tokens of a text, as far as there are any.
func (v *Vocabulary) split(text []byte) []int32 {
	if v.encode != nil {
		whole := text
		for len(whole) > 0 && !utf8.Valid(whole) && len(text)-len(whole) < utf8.UTFMax {
			whole = whole[:len(whole)-1] // the text may end inside a character
		}
		if ids := v.encode(string(whole)); v.reads(ids, whole) {
			return ids
		}
	}
	return v.longestFirst(text)
}

// reads reports whether the tokens are a text.
func (v *Vocabulary) reads(ids []int32, text []byte) bool {
	for _, id := range ids {
		if id < 0 || int(id) >= v.size || len(v.bytes[id]) == 0 || !bytes.HasPrefix(text, v.bytes[id]) {
			return false
		}
		text = text[len(v.bytes[id]):]
	}
	return len(text) == 0
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
		arcs := a.prog.states[x.state].Arcs
		if len(arcs) > 1 || arcs[0].Lo != arcs[0].Hi || i > 0 && byte(arcs[0].Lo) != b {
			return 0, false
		}
		b = byte(arcs[0].Lo)
	}
	return b, len(p.items) > 0
}

// straddles reports whether a token could begin with all of text and go on from the position after it.
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

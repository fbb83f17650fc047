package automaton

import (
	"slices"
	"unicode"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
)

// byteKinds is a set of kinds of characters. Grammars seldom tell characters of one kind apart.
type byteKinds uint64

const (
	wide   byteKinds = 1 << 62 // code points beyond ASCII, well-formed; the last of a text may be cut off
	broken byteKinds = 1 << 63 // anything else, or that does not begin where a code point does
)

// kindOf is the kind of every ASCII character. Punctuation and the usual white space are each their own, as they are
// what ends things; letters are of two kinds and digits of one.
var kindOf = func() (kinds [0x80]byteKinds) {
	kind := 0
	for _, last := range "\x08\t\n\x0c\r\x1f !\"#$%&'()*+,-./9:;<=>?@Z[\\]^_`z{|}~\x7f" {
		for b := last; b >= 0 && kinds[b] == 0; b-- {
			kinds[b] = 1 << kind
		}
		kind++
	}
	return kinds
}()

// loops is the kinds whose characters all lead from p to p.
func (a *Automaton) loops(p *position) (loop byteKinds, err error) {
	at := []*position{p}
	stays := func(lo, hi byte) (bool, error) {
		next, err := a.stepAll(at, dfa.ByteRange{Lo: lo, Hi: hi})
		return len(next) == 1 && next[0] == p, err
	}
	for b := range byte(0x80) {
		if loop&kindOf[b] == 0 && b > 0 && kindOf[b] == kindOf[b-1] {
			continue // another of its kind leads elsewhere
		}
		stay, err := stays(b, b)
		if err != nil {
			return 0, err
		}
		if loop |= kindOf[b]; !stay {
			loop &^= kindOf[b]
		}
	}
	loop |= wide
	dfa.UTF8Ranges(0x80, unicode.MaxRune, func(seq []dfa.ByteRange) {
		next := at
		for _, r := range seq {
			if err == nil {
				next, err = a.stepAll(next, r)
			}
		}
		if len(next) != 1 || next[0] != p {
			loop &^= wide
		}
	})
	return loop, err
}

// stepAll returns the positions after any byte of a range.
func (a *Automaton) stepAll(from []*position, r dfa.ByteRange) (to []*position, err error) {
	for _, p := range from {
		for b := int(r.Lo); b <= int(r.Hi); b++ {
			i, err := a.step(p, a.prog.class[b])
			if err != nil {
				return nil, err
			}
			if next := a.positions[i]; !slices.Contains(to, next) {
				to = append(to, next)
			}
		}
	}
	return to, nil
}

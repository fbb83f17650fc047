package schema

import (
	"cmp"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// digitAutomaton reads numbers digit by digit and knows at the end whether they are within bounds and a multiple of a
// factor. It becomes a graph of all its states.
type digitAutomaton struct {
	low, high *bound // nil: none
	factor    int    // in units of 10^-places; 0: none
	places    int
	fractions bool // a point is allowed
	fraction  bool // the number is no integer
}

// numberState is what has been read.
type numberState struct {
	phase    numberPhase
	negative bool
	nonzero  bool // a digit other than 0 has been read
	partial  bool // one behind the point, if that matters
	low      progress
	high     progress
	rest     int // of the digits, as one number, divided by the factor
	places   int // digits behind the point, if there is a factor
}

type numberPhase uint8

const (
	atStart numberPhase = iota
	afterSign
	afterZero  // a leading 0: only a point may follow
	inWhole    // before the point
	afterPoint // a digit must follow
	inFraction
)

// progress is how the digits read compare with those of a bound, both without sign.
type progress struct {
	at       int // digits of the whole or the fractional part read, up to one more than the bound has
	sign     int // of (read - bound), by the digits so far
	fraction bool
}

func (p progress) digit(b *bound, d byte) progress {
	if b == nil || p.fraction && p.sign != 0 {
		return p
	}
	own := b.whole
	if p.fraction {
		own = b.fraction
	}
	if p.sign == 0 {
		switch {
		case p.at < len(own):
			p.sign = cmp.Compare(d, own[p.at])
		case p.fraction:
			p.sign = cmp.Compare(d, '0')
		}
	}
	p.at = min(p.at+1, len(own)+1)
	if p.fraction && p.sign != 0 {
		p.at = 0 // no longer of interest
	}
	return p
}

// point ends the whole part: the number with more digits is the larger one.
func (p progress) point(b *bound) progress {
	if b == nil {
		return p
	}
	if p.at != len(b.whole) {
		p.sign = cmp.Compare(p.at, len(b.whole))
	}
	return progress{sign: p.sign, fraction: true}
}

// compare is the sign of (number - bound), once all digits have been read.
func (p progress) compare(b *bound, negative bool) int {
	if !p.fraction {
		p = p.point(b)
	}
	if p.sign == 0 && p.at < len(b.fraction) {
		p.sign = -1
	}
	switch {
	case negative && !b.negative:
		return -1
	case !negative && b.negative:
		return 1
	case negative:
		return -p.sign
	}
	return p.sign
}

// step reads a character of a number.
func (a *digitAutomaton) step(s numberState, c byte) (next numberState, ok bool) {
	switch c {
	case '-':
		s.negative = true
		ok = s.phase == atStart
		s.phase = afterSign
		return s, ok
	case '.':
		ok = a.fractions && (s.phase == afterZero || s.phase == inWhole) && (a.factor == 0 || a.places > 0)
		s.phase = afterPoint
		s.low, s.high = s.low.point(a.low), s.high.point(a.high)
		return s, ok
	}
	switch s.phase {
	case afterZero:
		return s, false
	case atStart, afterSign:
		s.phase = inWhole
		if c == '0' {
			s.phase = afterZero
		}
	case afterPoint:
		s.phase = inFraction
	}
	s.nonzero = s.nonzero || c != '0'
	s.partial = s.partial || a.fraction && s.phase == inFraction && c != '0'
	s.low, s.high = s.low.digit(a.low, c), s.high.digit(a.high, c)
	if a.factor > 0 {
		s.rest = (10*s.rest + int(c-'0')) % a.factor
		if s.phase == inFraction {
			s.places++
		}
		return s, s.places <= a.places
	}
	return s, true
}

// final reports whether a number may end here.
func (a *digitAutomaton) final(s numberState) bool {
	if s.phase != afterZero && s.phase != inWhole && s.phase != inFraction || s.negative && !s.nonzero || a.fraction && !s.partial {
		return false
	}
	if a.low != nil {
		if c := s.low.compare(a.low, s.negative); c < 0 || c == 0 && a.low.strict {
			return false
		}
	}
	if a.high != nil {
		if c := s.high.compare(a.high, s.negative); c > 0 || c == 0 && a.high.strict {
			return false
		}
	}
	if a.factor > 0 {
		rest := s.rest
		for range a.places - s.places {
			rest = 10 * rest % a.factor
		}
		return rest == 0
	}
	return true
}

// graph lists the states; ok is false if there are too many.
func (a *digitAutomaton) graph() (g syntax.Graph, ok bool) {
	states := []numberState{{}}
	index := map[numberState]int{{}: 0}
	for i := 0; i < len(states); i++ {
		if len(states) > dfa.MaxRuneStates {
			return g, false
		}
		g.Final = append(g.Final, a.final(states[i]))
		for _, c := range []byte("-.0123456789") {
			next, ok := a.step(states[i], c)
			if !ok {
				continue
			}
			to, known := index[next]
			if !known {
				to = len(states)
				index[next] = to
				states = append(states, next)
			}
			g.Arcs = append(g.Arcs, syntax.GraphArc{From: i, To: to, X: syntax.Class{{Lo: rune(c), Hi: rune(c)}}})
		}
	}
	return g, true
}

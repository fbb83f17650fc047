package dfa

import "github.com/ridge-llm/ridge/engine/grammar/syntax"

// class puts one code point of c between two states, in the encoding at hand.
func (l *lowering) class(c syntax.Class, from, to int32) {
	switch l.enc {
	case asRunes:
		for _, r := range c {
			l.arc(from, r.Lo, r.Hi, to)
		}
	case AsUTF8:
		l.utf8(c, from, to)
	case AsQuoted:
		l.utf8(c.Intersect(syntax.UnescapedInJSON), from, to)
		for _, r := range c.Intersect(syntax.EscapedInJSON) {
			for x := r.Lo; x <= r.Hi; x++ {
				enc := l.enc
				l.enc = AsUTF8
				l.text(syntax.EscapeJSON(x), from, to)
				l.enc = enc
			}
		}
	}
}

// utf8 shares the ends of the byte sequences: a class of many ranges has few different ones.
func (l *lowering) utf8(c syntax.Class, from, to int32) {
	type end struct {
		ByteRange
		to int32
	}
	ends := map[end]int32{}
	for _, r := range c {
		UTF8Ranges(r.Lo, r.Hi, func(seq []ByteRange) {
			next := to
			for i := len(seq) - 1; i > 0; i-- {
				e := end{seq[i], next}
				s, ok := ends[e]
				if !ok {
					s = l.state()
					l.arc(s, rune(seq[i].Lo), rune(seq[i].Hi), next)
					ends[e] = s
				}
				next = s
			}
			l.arc(from, rune(seq[0].Lo), rune(seq[0].Hi), next)
		})
	}
}

package grammar

import "fmt"

// class puts one code point of c between two states, in the encoding at hand.
func (l *lowering) class(c class, from, to int32) {
	switch l.enc {
	case asRunes:
		for _, r := range c {
			l.arc(from, r.lo, r.hi, to)
		}
	case asUTF8:
		l.utf8(c, from, to)
	case asQuoted:
		l.utf8(c.both(unescaped), from, to)
		for _, r := range c.both(escaped) {
			for x := r.lo; x <= r.hi; x++ {
				enc := l.enc
				l.enc = asUTF8
				l.text(escape(x), from, to)
				l.enc = enc
			}
		}
	}
}

// utf8 shares the ends of the byte sequences: a class of many ranges has few different ones.
func (l *lowering) utf8(c class, from, to int32) {
	type end struct {
		byteRange
		to int32
	}
	ends := map[end]int32{}
	for _, r := range c {
		utf8Ranges(r.lo, r.hi, func(seq []byteRange) {
			next := to
			for i := len(seq) - 1; i > 0; i-- {
				e := end{seq[i], next}
				s, ok := ends[e]
				if !ok {
					s = l.state()
					l.arc(s, rune(seq[i].lo), rune(seq[i].hi), next)
					ends[e] = s
				}
				next = s
			}
			l.arc(from, rune(seq[0].lo), rune(seq[0].hi), next)
		})
	}
}

// escaped is the code points that stand in a JSON string only behind a backslash (RFC 8259, section 7).
var (
	escaped   = newClass([]runeRange{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})
	unescaped = escaped.not()
)

// escape is how an escaped code point is written: the short form where there is one.
func escape(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}

package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// A runeClass says which of the character classes that split patterns ask about a rune is in.
type runeClass uint8

const (
	classLetter runeClass = 1 << iota // \p{L}
	classNumber                       // \p{N}
	classSpace                        // \s, Unicode White_Space
	classMark                         // \p{M}
	classUpper                        // \p{Lu}, \p{Lt}
	classLower                        // \p{Ll}
	classPunct                        // \p{P}
	classSymbol                       // \p{S}
)

// classTable gives the class of every rune in two steps: index by the rune's high bits, then by its low eight.
type classTable struct {
	block [(utf8.MaxRune + 1) >> 8]uint16
	class [][256]runeClass
}

// classes builds the table once; it is never written again.
var classes = sync.OnceValue(func() *classTable {
	flat := make([]runeClass, utf8.MaxRune+1)
	mark := func(c runeClass, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
					flat[x] |= c
				}
			}
			for _, r := range t.R32 {
				for x := r.Lo; x <= r.Hi; x += r.Stride {
					flat[x] |= c
				}
			}
		}
	}
	mark(classLetter, unicode.L)
	mark(classNumber, unicode.N)
	mark(classSpace, unicode.White_Space)
	mark(classMark, unicode.M)
	mark(classUpper, unicode.Lu, unicode.Lt)
	mark(classLower, unicode.Ll)
	mark(classPunct, unicode.P)
	mark(classSymbol, unicode.S)

	t := &classTable{}
	seen := map[[256]runeClass]uint16{}
	for i := range t.block {
		var b [256]runeClass
		copy(b[:], flat[i<<8:])
		n, ok := seen[b]
		if !ok {
			n = uint16(len(t.class))
			seen[b] = n
			t.class = append(t.class, b)
		}
		t.block[i] = n
	}
	return t
})

func (t *classTable) of(r rune) runeClass {
	return t.class[t.block[r>>8]][r&0xFF]
}

// at returns the class and the length in bytes of the rune of s at byte i; 0, 0 at the end of s. s is valid UTF-8.
func (t *classTable) at(s string, i int) (runeClass, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return t.class[0][c], 1 // block 0 is always the first one stored
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// run returns the end of the longest run of runes of s, starting at byte i, that are in one of the classes of want.
func (t *classTable) run(s string, i int, want runeClass) int {
	for {
		c, n := t.at(s, i)
		if n == 0 || c&want == 0 {
			return i
		}
		i += n
	}
}

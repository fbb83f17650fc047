package grammar

import (
	"cmp"
	"slices"
	"unicode"
)

// runeRange is the code points lo to hi, both included.
type runeRange struct{ lo, hi rune }

const (
	firstSurrogate = 0xD800
	lastSurrogate  = 0xDFFF
)

// anyRune is every code point that UTF-8 can write: all but the surrogates.
var anyRune = class{{0, firstSurrogate - 1}, {lastSurrogate + 1, unicode.MaxRune}}

// newClass sorts the ranges and joins those that touch.
func newClass(ranges []runeRange) class {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var c class
	for _, r := range sorted {
		if n := len(c); n > 0 && r.lo <= c[n-1].hi+1 {
			c[n-1].hi = max(c[n-1].hi, r.hi)
		} else {
			c = append(c, r)
		}
	}
	return c
}

func classOf(runes string) class {
	var ranges []runeRange
	for _, r := range runes {
		ranges = append(ranges, runeRange{r, r})
	}
	return newClass(ranges)
}

// both is the code points in c and d.
func (c class) both(d class) class {
	var out class
	for len(c) > 0 && len(d) > 0 {
		if lo, hi := max(c[0].lo, d[0].lo), min(c[0].hi, d[0].hi); lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if c[0].hi < d[0].hi {
			c = c[1:]
		} else {
			d = d[1:]
		}
	}
	return out
}

// not is the code points that are not in c.
func (c class) not() class {
	var gaps class
	next := rune(0)
	for _, r := range c {
		if r.lo > next {
			gaps = append(gaps, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		gaps = append(gaps, runeRange{next, unicode.MaxRune})
	}
	return gaps.both(anyRune)
}

// size is how many code points c has.
func (c class) size() (n int) {
	for _, r := range c {
		n += int(r.hi-r.lo) + 1
	}
	return n
}

// tableClass is the code points of one of package unicode's tables.
func tableClass(t *unicode.RangeTable) class {
	var ranges []runeRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, runeRange{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newClass(ranges).both(anyRune)
}

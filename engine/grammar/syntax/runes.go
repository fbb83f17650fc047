package syntax

import (
	"cmp"
	"slices"
	"unicode"
)

// RuneRange is the code points lo to hi, both included.
type RuneRange struct{ Lo, Hi rune }

const (
	FirstSurrogate = 0xD800
	LastSurrogate  = 0xDFFF
)

// AnyRune is every code point that UTF-8 can write: all but the surrogates.
var AnyRune = Class{{0, FirstSurrogate - 1}, {LastSurrogate + 1, unicode.MaxRune}}

// Digits is 0 to 9.
var Digits = Class{{'0', '9'}}

// NewClass sorts the ranges and joins those that touch.
func NewClass(ranges []RuneRange) Class {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b RuneRange) int { return cmp.Compare(a.Lo, b.Lo) })
	var c Class
	for _, r := range sorted {
		if n := len(c); n > 0 && r.Lo <= c[n-1].Hi+1 {
			c[n-1].Hi = max(c[n-1].Hi, r.Hi)
		} else {
			c = append(c, r)
		}
	}
	return c
}

// ClassOf is the class of the given runes.
func ClassOf(runes string) Class {
	var ranges []RuneRange
	for _, r := range runes {
		ranges = append(ranges, RuneRange{r, r})
	}
	return NewClass(ranges)
}

// Intersect is the code points in c and d.
func (c Class) Intersect(d Class) Class {
	var out Class
	for len(c) > 0 && len(d) > 0 {
		if lo, hi := max(c[0].Lo, d[0].Lo), min(c[0].Hi, d[0].Hi); lo <= hi {
			out = append(out, RuneRange{lo, hi})
		}
		if c[0].Hi < d[0].Hi {
			c = c[1:]
		} else {
			d = d[1:]
		}
	}
	return out
}

// Complement is the code points that are not in c.
func (c Class) Complement() Class {
	var gaps Class
	next := rune(0)
	for _, r := range c {
		if r.Lo > next {
			gaps = append(gaps, RuneRange{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= unicode.MaxRune {
		gaps = append(gaps, RuneRange{next, unicode.MaxRune})
	}
	return gaps.Intersect(AnyRune)
}

// Size is how many code points c has.
func (c Class) Size() (n int) {
	for _, r := range c {
		n += int(r.Hi-r.Lo) + 1
	}
	return n
}

// TableClass is the code points of one of package unicode's tables.
func TableClass(t *unicode.RangeTable) Class {
	var ranges []RuneRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, RuneRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, RuneRange{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return NewClass(ranges).Intersect(AnyRune)
}

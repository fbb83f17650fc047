package tokenizer

import (
	"cmp"
	"maps"
	"slices"
	"unicode"
)

// scriptSplit cuts where the script of the letters changes, as SentencePiece does when it trains: Hiragana and Katakana
// count as Han, and spaces go with what is before them. Like upstream, it loses spaces at the start of a piece.
type scriptSplit struct{ ranges []scriptRange }

// scriptRange is a range of runes of one script, numbered from 1.
type scriptRange struct {
	lo, hi rune
	script int
}

// newScriptSplit lists the ranges of all scripts in order.
func newScriptSplit() scriptSplit {
	var s scriptSplit
	names := slices.Sorted(maps.Keys(unicode.Scripts))
	han := slices.Index(names, "Han") + 1
	for i, name := range names {
		script := i + 1
		if name == "Hiragana" || name == "Katakana" {
			script = han
		}
		add := func(lo, hi, stride rune) {
			if stride == 1 {
				s.ranges = append(s.ranges, scriptRange{lo, hi, script})
				return
			}
			for r := lo; r <= hi; r += stride {
				s.ranges = append(s.ranges, scriptRange{r, r, script})
			}
		}
		for _, r := range unicode.Scripts[name].R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range unicode.Scripts[name].R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	slices.SortFunc(s.ranges, func(a, b scriptRange) int { return cmp.Compare(a.lo, b.lo) })
	return s
}

func (s scriptSplit) cut(p piece, emit func(piece) bool) error {
	start, last := -1, 0
	for i, r := range p.text {
		now := s.script(r)
		if now == 0 || now == last {
			continue
		}
		if start >= 0 && !emit(p.sub(start, i)) {
			return nil
		}
		start, last = i, now
	}
	if start >= 0 {
		emit(p.sub(start, len(p.text)))
	}
	return nil
}

// script numbers the script of a rune; 0 is for what goes with any script.
func (s scriptSplit) script(r rune) int {
	switch r {
	case ' ':
		return 0
	case 'ー': // common to Hiragana and Katakana by Unicode
		r = '一'
	}
	i, found := slices.BinarySearchFunc(s.ranges, r, func(x scriptRange, r rune) int { return cmp.Compare(x.lo, r) })
	if !found {
		i--
	}
	if i < 0 || r > s.ranges[i].hi {
		return 0
	}
	return s.ranges[i].script
}

package dfa

import (
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// ByteRange is the bytes lo to hi, both included.
type ByteRange struct{ Lo, Hi byte }

// UTF8Ranges calls emit with sequences of byte ranges that together are the UTF-8 of the code points lo to hi, each
// code point in exactly one of them. The slice is only valid during the call.
func UTF8Ranges(lo, hi rune, emit func([]ByteRange)) {
	for _, last := range []rune{0x7F, 0x7FF, syntax.FirstSurrogate - 1, syntax.LastSurrogate, 0xFFFF} {
		if lo <= last && hi > last {
			UTF8Ranges(lo, last, emit)
			lo = last + 1
		}
	}
	if lo >= syntax.FirstSurrogate && hi <= syntax.LastSurrogate {
		return // UTF-8 does not write them
	}
	// All from lo to hi have the same length now. Cut so that every range is a product of byte ranges: wherever the
	// higher bits differ, the lower six must run through all their values.
	for shift := 6; shift < 6*utf8.RuneLen(lo); shift += 6 {
		low := rune(1)<<shift - 1
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			UTF8Ranges(lo, lo|low, emit)
			UTF8Ranges((lo|low)+1, hi, emit)
			return
		}
		if hi&low != low {
			UTF8Ranges(lo, hi&^low-1, emit)
			UTF8Ranges(hi&^low, hi, emit)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	var ranges [utf8.UTFMax]ByteRange
	for i := range n {
		ranges[i] = ByteRange{first[i], last[i]}
	}
	emit(ranges[:n])
}

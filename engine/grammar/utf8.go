package grammar

import "unicode/utf8"

// byteRange is the bytes lo to hi, both included.
type byteRange struct{ lo, hi byte }

// utf8Ranges calls emit with sequences of byte ranges that together are the UTF-8 of the code points lo to hi, each
// code point in exactly one of them. The slice is only valid during the call.
func utf8Ranges(lo, hi rune, emit func([]byteRange)) {
	for _, last := range []rune{0x7F, 0x7FF, firstSurrogate - 1, lastSurrogate, 0xFFFF} {
		if lo <= last && hi > last {
			utf8Ranges(lo, last, emit)
			lo = last + 1
		}
	}
	if lo >= firstSurrogate && hi <= lastSurrogate {
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
			utf8Ranges(lo, lo|low, emit)
			utf8Ranges((lo|low)+1, hi, emit)
			return
		}
		if hi&low != low {
			utf8Ranges(lo, hi&^low-1, emit)
			utf8Ranges(hi&^low, hi, emit)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	var ranges [utf8.UTFMax]byteRange
	for i := range n {
		ranges[i] = byteRange{first[i], last[i]}
	}
	emit(ranges[:n])
}

package tokenizer

import "unicode/utf8"

const replacement = "\uFFFD"

// validText returns s when it is valid UTF-8, and otherwise s with each maximal invalid part replaced by one U+FFFD
// (Unicode 15, section 3.9, "substitution of maximal subparts"; Go's own conversions replace every byte).
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string(appendLossy(nil, []byte(s)))
}

// appendLossy appends b to dst with each maximal invalid part of b replaced by one U+FFFD.
func appendLossy(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			n = invalidPrefix(b)
			dst = append(dst, replacement...)
		} else {
			dst = append(dst, b[:n]...)
		}
		b = b[n:]
	}
	return dst
}

// invalidPrefix is the length of the maximal subpart that b, known not to start with a valid rune, starts with: the
// longest start of some well-formed sequence, or one byte.
func invalidPrefix(b []byte) int {
	lo, hi, want := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		want = 1
	case c >= 0xE0 && c <= 0xEF:
		want = 2
		switch c {
		case 0xE0:
			lo = 0xA0
		case 0xED:
			hi = 0x9F // no surrogates
		}
	case c >= 0xF0 && c <= 0xF4:
		want = 3
		switch c {
		case 0xF0:
			lo = 0x90
		case 0xF4:
			hi = 0x8F // no runes above U+10FFFF
		}
	}
	n := 1
	for n <= want && n < len(b) && b[n] >= lo && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}

// incompleteSuffix is the number of bytes at the end of b that start a rune whose rest may still come, 0 to 3.
func incompleteSuffix(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if tail[0]&0xC0 == 0x80 {
			continue // a continuation byte: the start is further left
		}
		if tail[0] >= 0xC2 && !utf8.FullRune(tail) && invalidPrefix(tail) == n {
			return n
		}
		return 0
	}
	return 0
}

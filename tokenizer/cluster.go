package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// clusterLength is the length in bytes of the extended grapheme cluster that s starts with (Unicode Standard Annex 29),
// as far as charsmap needs it: clusters of six bytes and more are taken apart anyway, so the rules for Hangul, flags and
// joined emoji, which make only such clusters, are left out.
func clusterLength(s string) int {
	if len(s) >= 2 && s[0] == '\r' && s[1] == '\n' {
		return 2
	}
	r, n := utf8.DecodeRuneInString(s)
	if isClusterControl(r) {
		return n
	}
	for isPrepended(r) && n < len(s) {
		next, size := utf8.DecodeRuneInString(s[n:])
		if isClusterControl(next) {
			return n
		}
		r = next
		n += size
	}
	for n < len(s) {
		next, size := utf8.DecodeRuneInString(s[n:])
		if next < 0x300 || !extendsCluster(next) {
			break
		}
		n += size
	}
	return n
}

// extendsCluster is Grapheme_Cluster_Break = Extend, ZWJ or SpacingMark.
func extendsCluster(r rune) bool {
	switch {
	case r == 0x200C || r == 0x200D || r >= 0xFF9E && r <= 0xFF9F || r >= 0x1F3FB && r <= 0x1F3FF || r >= 0xE0020 && r <= 0xE007F:
		return true
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
		return true
	case r == 0x0E33 || r == 0x0EB3:
		return true
	}
	return unicode.Is(unicode.Mc, r) && !unicode.Is(notSpacingMark, r)
}

// notSpacingMark is the general category Mc without Grapheme_Cluster_Break = SpacingMark (annex 29, table 2).
var notSpacingMark = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x102B, Hi: 0x102C, Stride: 1}, {Lo: 0x1038, Hi: 0x1038, Stride: 1}, {Lo: 0x1062, Hi: 0x1064, Stride: 1},
	{Lo: 0x1067, Hi: 0x106D, Stride: 1}, {Lo: 0x1083, Hi: 0x1083, Stride: 1}, {Lo: 0x1087, Hi: 0x108C, Stride: 1},
	{Lo: 0x108F, Hi: 0x108F, Stride: 1}, {Lo: 0x109A, Hi: 0x109C, Stride: 1}, {Lo: 0x1A61, Hi: 0x1A61, Stride: 1},
	{Lo: 0x1A63, Hi: 0x1A64, Stride: 1}, {Lo: 0xAA7B, Hi: 0xAA7B, Stride: 1}, {Lo: 0xAA7D, Hi: 0xAA7D, Stride: 1},
}, R32: []unicode.Range32{{Lo: 0x11720, Hi: 0x11721, Stride: 1}}}

// isPrepended is Grapheme_Cluster_Break = Prepend, in the Basic Multilingual Plane; runes beyond it make clusters of
// more than five bytes.
func isPrepended(r rune) bool {
	return r >= 0x600 && (r <= 0x605 || r == 0x6DD || r == 0x70F || r >= 0x890 && r <= 0x891 || r == 0x8E2 || r == 0xD4E)
}

// isClusterControl is Grapheme_Cluster_Break = CR, LF or Control.
func isClusterControl(r rune) bool {
	if r < 0x20 || r >= 0x7F && r < 0xA0 || r == 0x2028 || r == 0x2029 {
		return true
	}
	return unicode.Is(unicode.Cf, r) && r != 0x200C && r != 0x200D && !isPrepended(r) && !(r >= 0xE0020 && r <= 0xE007F) && r != 0x110BD && r != 0x110CD
}

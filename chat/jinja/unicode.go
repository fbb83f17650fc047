package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isSpace is str.isspace of one character, and what \s matches: a few control characters more than unicode.IsSpace.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f
}

// isWord is what \w matches.
func isWord(c rune) bool { return c == '_' || isAlnum(c) }

func isAlnum(c rune) bool { return unicode.IsLetter(c) || isNumeric(c) }

// Ideographs that are numbers (Unihan's kPrimaryNumeric, kAccountingNumeric and kOtherNumeric).
const numericIdeographs = "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零參拾兩零六陸什𠀁𠁤𠃢𠄡𠤪𠦃𠦌𠦜𠫪𠫽𠬙𢎐𢦘𣬛𦉭廾"

// isNumeric is str.isnumeric of one character.
func isNumeric(c rune) bool {
	return unicode.IsNumber(c) || c >= 0x3400 && strings.ContainsRune(numericIdeographs, c)
}

// digitsNotDecimal are the digits that do not stand in a decimal number, such as superscripts.
var digitsNotDecimal = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1},
		{0x2074, 0x2079, 1}, {0x2080, 0x2089, 1}, {0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1},
		{0x24ea, 0x24ea, 1}, {0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1},
		{0x278a, 0x2792, 1},
	},
	R32: []unicode.Range32{
		{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1},
	},
}

// isDigit is str.isdigit of one character.
func isDigit(c rune) bool { return unicode.Is(unicode.Nd, c) || unicode.Is(digitsNotDecimal, c) }

// isIdentifier is str.isidentifier.
func isIdentifier(s string) bool {
	for i, c := range s {
		start := c == '_' || unicode.IsLetter(c) || unicode.In(c, unicode.Nl, unicode.Other_ID_Start)
		if !start && (i == 0 || !unicode.In(c, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) {
			return false
		}
	}
	return s != ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runeCount is len(s) in Python: characters, not bytes.
func runeCount(s string) int { return utf8.RuneCountInString(s) }

// byteIndex is where character i of s begins; from the end on, it is the length of s.
func byteIndex(s string, i int) int {
	n := 0
	for ; i > 0 && n < len(s); i-- {
		_, size := utf8.DecodeRuneInString(s[n:])
		n += size
	}
	return n
}

// runeSlice is s[from:to] for 0 <= from <= to, counted in characters.
func runeSlice(s string, from, to int) string {
	if isASCII(s) {
		return s[min(from, len(s)):min(to, len(s))]
	}
	s = s[byteIndex(s, from):]
	return s[:byteIndex(s, to-from)]
}

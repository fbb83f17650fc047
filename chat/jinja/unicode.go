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

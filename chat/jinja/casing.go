package jinja

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Characters whose upper or title case is more than one character: each is followed by its mapping, up to a space.
// Source: Unicode 14 SpecialCasing.txt, unconditional mappings.
const (
	specialUpper = "" +
		"ßSS ŉʼN ǰJ̌ ΐΪ́ ΰΫ́ ևԵՒ ẖH̱ ẗT̈ ẘW̊ ẙY̊ ẚAʾ ὐΥ̓ ὒΥ̓̀ ὔΥ̓́ ὖΥ̓͂ ᾀἈΙ ᾁἉΙ ᾂἊΙ ᾃἋΙ ᾄἌΙ ᾅἍΙ ᾆἎΙ " +
		"ᾇἏΙ ᾈἈΙ ᾉἉΙ ᾊἊΙ ᾋἋΙ ᾌἌΙ ᾍἍΙ ᾎἎΙ ᾏἏΙ ᾐἨΙ ᾑἩΙ ᾒἪΙ ᾓἫΙ ᾔἬΙ ᾕἭΙ ᾖἮΙ ᾗἯΙ ᾘἨΙ ᾙἩΙ ᾚἪΙ ᾛἫΙ ᾜἬΙ " +
		"ᾝἭΙ ᾞἮΙ ᾟἯΙ ᾠὨΙ ᾡὩΙ ᾢὪΙ ᾣὫΙ ᾤὬΙ ᾥὭΙ ᾦὮΙ ᾧὯΙ ᾨὨΙ ᾩὩΙ ᾪὪΙ ᾫὫΙ ᾬὬΙ ᾭὭΙ ᾮὮΙ ᾯὯΙ ᾲᾺΙ ᾳΑΙ ᾴΆΙ " +
		"ᾶΑ͂ ᾷΑ͂Ι ᾼΑΙ ῂῊΙ ῃΗΙ ῄΉΙ ῆΗ͂ ῇΗ͂Ι ῌΗΙ ῒΪ̀ ΐΪ́ ῖΙ͂ ῗΪ͂ ῢΫ̀ ΰΫ́ ῤΡ̓ ῦΥ͂ ῧΫ͂ ῲῺΙ ῳΩΙ ῴΏΙ ῶΩ͂ " +
		"ῷΩ͂Ι ῼΩΙ ﬀFF ﬁFI ﬂFL ﬃFFI ﬄFFL ﬅST ﬆST ﬓՄՆ ﬔՄԵ ﬕՄԻ ﬖՎՆ ﬗՄԽ"
	specialTitle = "ŉʼN ᾲᾺͅ ᾴΆͅ ᾷᾼ͂ ῂῊͅ ῄΉͅ ῇῌ͂ ῲῺͅ ῴΏͅ ῷῼ͂" // where it is not the upper case with a small rest
)

type casings struct{ upper, title map[rune]string }

var specialCasings = sync.OnceValue(func() casings {
	table := func(s string) map[rune]string {
		m := map[rune]string{}
		for _, entry := range strings.Fields(s) {
			c, n := utf8.DecodeRuneInString(entry)
			m[c] = entry[n:]
		}
		return m
	}
	return casings{table(specialUpper), table(specialTitle)}
})

// upper is s.upper() in Python.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	var b strings.Builder
	for _, c := range s {
		if u, ok := specialCasings().upper[c]; ok {
			b.WriteString(u)
		} else {
			b.WriteRune(unicode.ToUpper(c))
		}
	}
	return b.String()
}

// lower is s.lower() in Python: a capital sigma at the end of a word becomes a final one.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, c := range s {
		lowerRune(&b, s, i, c)
	}
	return b.String()
}

// lowerRune writes the lower case of c, which stands at byte i of s.
func lowerRune(b *strings.Builder, s string, i int, c rune) {
	switch {
	case c == 'İ':
		b.WriteString("i\u0307")
	case c == 'Σ' && isFinalSigma(s, i):
		b.WriteRune('ς')
	default:
		b.WriteRune(unicode.ToLower(c))
	}
}

// isFinalSigma reports whether the capital sigma at byte i of s has a letter before it and none after it; marks and
// other case-ignorable characters in between do not count.
func isFinalSigma(s string, i int) bool {
	before, after := s[:i], s[i+len("Σ"):]
	for {
		c, n := utf8.DecodeLastRuneInString(before)
		if n == 0 || !isCaseIgnorable(c) {
			if !isCased(c) {
				return false
			}
			break
		}
		before = before[:len(before)-n]
	}
	for _, c := range after {
		if !isCaseIgnorable(c) {
			return !isCased(c)
		}
	}
	return true
}

func isCased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isCaseIgnorable(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:··՟״‘’․‧︓︰﹒﹕＇．：", c)
}

// titleRune is the title case of one character.
func titleRune(c rune) string {
	if special, ok := specialCasings().title[c]; ok {
		return special
	}
	t := unicode.ToTitle(c)
	if u, ok := specialCasings().upper[c]; ok && t == c && !unicode.IsTitle(c) {
		first, n := utf8.DecodeRuneInString(u)
		return string(first) + lower(u[n:])
	}
	return string(t)
}

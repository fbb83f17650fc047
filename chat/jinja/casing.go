package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// upper is s.upper() in Python.
func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

// lower is s.lower() in Python: a capital sigma at the end of a word becomes a final one.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

// capitalize is s.capitalize() in Python: the first character in title case, the others in lower case. Templates write roles with it
// (Idefics 2, SmolVLM).
func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return titleCase(s[:n]) + lower(s)[len(lower(s[:n])):]
}

// title is s.title() in Python: it capitalises each run of cased letters (OpenChat 3.5).
func title(s string) string {
	var b strings.Builder
	inWord, low := false, lower(s) // low is where s is: the lower case of a letter depends on those around it, but not how long it is
	for s != "" {
		c, size := utf8.DecodeRuneInString(s)
		n := len(lower(s[:size])) // size is 1 where s is no UTF-8
		if inWord {
			b.WriteString(low[:n])
		} else {
			b.WriteString(titleCase(s[:size]))
		}
		inWord, s, low = isCased(c), s[size:], low[n:]
	}
	return b.String()
}

func isCased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// titleCase is the title case of one character.
func titleCase(c string) string {
	if isASCII(c) {
		return strings.ToUpper(c)
	}
	return cases.Title(language.Und).String(c)
}

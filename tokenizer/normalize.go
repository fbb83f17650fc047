package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A normalizer rewrites text before it is cut into words.
type normalizer interface {
	normalize(s string) string
}

// normalizers applies several, in order.
type normalizers []normalizer

func (ns normalizers) normalize(s string) string {
	for _, n := range ns {
		s = n.normalize(s)
	}
	return s
}

// startDropper is a normalizer that can take away the start of a text. What is left does not count as the start of the
// whole text any more: upstream goes by where characters stood originally.
type startDropper interface {
	dropsStart(s string) bool
}

// dropperOf is n if it can take away the start of a text, else nil.
func dropperOf(n normalizer) startDropper {
	switch n := n.(type) {
	case strip:
		if n.left {
			return n
		}
	case stripAccents:
		return n
	case normalizers:
		for _, part := range n {
			if dropperOf(part) != nil {
				return n
			}
		}
	}
	return nil
}

func (ns normalizers) dropsStart(s string) bool {
	for _, n := range ns {
		if d, ok := n.(startDropper); ok && d.dropsStart(s) {
			return true
		}
		s = n.normalize(s)
	}
	return false
}

// lowercase maps every rune by itself (no final sigma), to its full lower case.
type lowercase struct{}

func (lowercase) normalize(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return strings.ReplaceAll(strings.Map(lowerRune, s), "\u0130", "i\u0307")
		}
	}
	return s
}

// lowerRune leaves U+0130, the one rune whose lower case is two runes, to the caller.
func lowerRune(r rune) rune {
	if r == '\u0130' {
		return r
	}
	return unicode.ToLower(r)
}

// stripAccents drops combining marks; it does not decompose, so NFD usually goes before it.
type stripAccents struct{}

func (stripAccents) normalize(s string) string { return dropRunes(s, unicode.M) }

func (stripAccents) dropsStart(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.M, r)
}

func dropRunes(s string, table *unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && unicode.Is(table, r) {
			return -1
		}
		return r
	}, s)
}

// strip drops white space at the ends.
type strip struct{ left, right bool }

func (n strip) normalize(s string) string {
	if n.left {
		s = s[leadingSpace(s):]
	}
	if n.right {
		s = s[:len(s)-trailingSpace(s)]
	}
	return s
}

func (n strip) dropsStart(s string) bool { return n.left && leadingSpace(s) > 0 }

// prepend puts text before text that is not empty.
type prepend struct{ text string }

func (n prepend) normalize(s string) string {
	if s == "" {
		return s
	}
	return n.text + s
}

// replace puts a fixed text in place of every match of a literal or of a pattern.
type replace struct {
	literal string
	pattern *regexpMatcher // when not nil, instead of literal
	content string
}

func (n replace) normalize(s string) string {
	if n.pattern == nil {
		if n.literal == "" {
			return s
		}
		return strings.ReplaceAll(s, n.literal, n.content)
	}
	var out strings.Builder
	done := 0
	err := n.pattern.matches(s, func(start, end int) bool {
		out.WriteString(s[done:start])
		out.WriteString(n.content)
		done = end
		return true
	})
	if err != nil || done == 0 && out.Len() == 0 {
		return s // a pattern that gave up replaces nothing, as upstream
	}
	out.WriteString(s[done:])
	return out.String()
}

// byteLevelNormalizer spells text in the byte alphabet.
type byteLevelNormalizer struct{}

func (byteLevelNormalizer) normalize(s string) string { return toAlphabet(s) }

// nmt is the clean-up of the "nmt" rules of SentencePiece: control characters go, odd white space becomes a space.
type nmt struct{}

func (nmt) normalize(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x01 && r <= 0x08, r == 0x0B, r >= 0x0E && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == 0x09, r == 0x0A, r == 0x0C, r == 0x0D, r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, s)
}

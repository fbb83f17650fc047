package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is the clean-up of BERT's basic tokenizer.
type bertNormalizer struct {
	cleanText    bool // drop control characters, make white space plain
	spaceChinese bool // put spaces around ideographs
	stripAccents bool
	lowercase    bool
}

func (n bertNormalizer) normalize(s string) string {
	if n.cleanText {
		s = strings.Map(cleanRune, s)
	}
	if n.spaceChinese {
		s = spaceIdeographs(s)
	}
	if n.stripAccents {
		s = dropRunes(unicodeForm{norm.NFD}.normalize(s), unicode.Mn)
	}
	if n.lowercase {
		s = lowercase{}.normalize(s)
	}
	return s
}

func cleanRune(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case r == 0 || r == 0xFFFD || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
		return -1
	case unicode.IsSpace(r):
		return ' '
	}
	return r
}

func spaceIdeographs(s string) string {
	if strings.IndexFunc(s, isIdeograph) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if isIdeograph(r) {
			out.WriteByte(' ')
			out.WriteRune(r)
			out.WriteByte(' ')
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// isIdeograph holds for the blocks that BERT calls Chinese. Upstream starts the last but two at U+2B920, not U+2B820.
func isIdeograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

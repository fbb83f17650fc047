package tokenizer

import "unicode/utf8"

// A tiler cuts text into the matches of a pattern that matches everywhere, so that matches lie end to end.
type tiler interface {
	// next returns the end of the match that starts at byte i of s, i < len(s). s is valid UTF-8.
	next(s string, i int) int
}

// Split patterns that have a hand-written tiler, in the spelling of the files that use them. Every other pattern goes
// to regexp2, which gives the same matches about ten times slower (compare BenchmarkSplit).
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen35 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200k  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// knownTiler returns the hand-written tiler of a pattern, or nil.
func knownTiler(pattern string) tiler {
	cl := classes()
	switch pattern {
	case patternGPT2:
		return gpt2Tiler{cl}
	case patternLlama3:
		return cl100kTiler{cl, classLetter, 3}
	case patternQwen2:
		return cl100kTiler{cl, classLetter, 1}
	case patternQwen35:
		return cl100kTiler{cl, classLetter | classMark, 1}
	case patternO200k:
		return o200kTiler{cl, true, 3}
	case patternTekken:
		return o200kTiler{cl, false, 1}
	}
	return nil
}

// contraction returns the end of the match of 's|'t|'re|'ve|'m|'ll|'d at byte i of s, or i when there is none. With
// fold, case does not matter; like Oniguruma's (?i:), that lets U+017F (long s) stand for s.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	a, b := s[i+1], byte(0)
	if i+2 < len(s) {
		b = s[i+2]
	}
	if fold {
		if a == 0xC5 && b == 0xBF {
			return i + 3
		}
		a, b = lowerASCII(a), lowerASCII(b)
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return i + 2
	case b == 'e' && (a == 'r' || a == 'v') || b == 'l' && a == 'l':
		return i + 3
	}
	return i
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// runNot returns the end of the longest run of runes of s, starting at byte i, that are in none of the classes of not.
func (t *classTable) runNot(s string, i int, not runeClass) int {
	for {
		c, n := t.at(s, i)
		if n == 0 || c&not != 0 {
			return i
		}
		i += n
	}
}

// upTo returns the end of the run of at most max runes of class want that starts at byte i of s.
func (t *classTable) upTo(s string, i int, want runeClass, max int) int {
	for ; max > 0; max-- {
		c, n := t.at(s, i)
		if n == 0 || c&want == 0 {
			break
		}
		i += n
	}
	return i
}

func isNewline(c byte) bool { return c == '\r' || c == '\n' }

// lines matches \s*[\r\n]+|\s+(?!\S)|\s+ at byte i of s, where a run of white space starts.
func (t *classTable) lines(s string, i int) int {
	end := t.run(s, i, classSpace)
	for j := end; j > i; j-- {
		if isNewline(s[j-1]) {
			return j
		}
	}
	return t.lastSpaceApart(s, i, end)
}

// lastSpaceApart matches \s+(?!\S)|\s+ on the white space s[i:end]: all of it before the end of the text, otherwise all
// but its last rune, which goes to the word that follows, unless it is the only one.
func (t *classTable) lastSpaceApart(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(s[i:end])
	if end-n > i {
		return end - n
	}
	return end
}

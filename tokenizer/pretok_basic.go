package tokenizer

import (
	"math"
	"unicode"
	"unicode/utf8"
)

// The simple pre-tokenizers are splits at certain runes.
var (
	whitespaceSplit = split{matcher: runeMatcher(unicode.IsSpace), behavior: removed}
	// whitespace is \w+|[^\w\s]+, the matches kept.
	whitespace       = wordsAndSigns{}
	bertPreTokenizer = preTokenizers{whitespaceSplit, split{matcher: runeMatcher(isPunctuation), behavior: isolated}}
)

// isPunctuation holds for category P and for all ASCII characters that are neither letters, digits, space nor control.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	}
	return unicode.Is(unicode.P, r)
}

// wordsAndSigns cuts text into runs of word characters and runs of other characters, and drops white space.
type wordsAndSigns struct{}

func (wordsAndSigns) cut(p piece, emit func(piece) bool) error {
	const space, word, sign = 0, 1, 2
	start, kind := 0, space
	for i, r := range p.text {
		k := sign
		switch {
		case isWordRune(r):
			k = word
		case unicode.IsSpace(r):
			k = space
		}
		if k != kind {
			if kind != space && !emit(p.sub(start, i)) {
				return nil
			}
			start, kind = i, k
		}
	}
	if kind != space {
		emit(p.sub(start, len(p.text)))
	}
	return nil
}

// digits sets numbers apart: whole, or digit by digit.
func digits(individual bool) split {
	if individual {
		return split{matcher: numbers(1), behavior: isolated}
	}
	return split{matcher: numbers(math.MaxInt), behavior: isolated}
}

// fixedLength cuts text into words of so many runes.
type fixedLength int

func (n fixedLength) cut(p piece, emit func(piece) bool) error {
	start, runes := 0, 0
	for i := range p.text {
		if runes == int(n) {
			if !emit(p.sub(start, i)) {
				return nil
			}
			start, runes = i, 0
		}
		runes++
	}
	emit(p.sub(start, len(p.text)))
	return nil
}

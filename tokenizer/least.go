package tokenizer

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Least is a number of tokens that text has at least, by its length alone; 0 where that tells nothing. It is for refusing texts that are far too long
// without reading them.
func (t *Tokenizer) Least(text string, o Options) int {
	if t.bytes == 0 {
		return 0
	}
	bytes := len(text)
	if t.added.strips {
		bytes = withoutSpace(text)
	}
	if o.Mark != "" {
		bytes -= len(o.Mark) * strings.Count(text, o.Mark)
	}
	return max(0, bytes/t.bytes)
}

// longest is how many bytes of text a token may stand for at most; 0: any number, or not known.
func (t *Tokenizer) longest() int {
	most := longestToken(t.model)
	for _, a := range t.added.tokens {
		most = max(most, len(a.Content))
	}
	shrinks := shrinkage(t.norm)
	if most == 0 || shrinks == 0 || !keepsAll(t.pre) {
		return 0
	}
	return most * shrinks
}

// withoutSpace is the bytes of text but for white space.
func withoutSpace(text string) (bytes int) {
	for _, r := range text {
		switch {
		case r == utf8.RuneError:
			bytes++ // or three; what is not UTF-8 counts by bytes
		case !unicode.IsSpace(r):
			bytes += utf8.RuneLen(r)
		}
	}
	return bytes
}

// longestToken is the bytes of a word that a model makes one token of at most; 0: it makes one, or none, of any number.
func longestToken(m model) int {
	b, ok := m.(*bpe)
	if !ok || !b.knowsAll() {
		return 0
	}
	most := 4 // a rune, which may be one unknown token
	b.vocab.each(func(key []byte, _ int32) { most = max(most, len(key)) })
	return most
}

// knowsAll reports whether every rune becomes a token, or a part of one, that stands for no unknown rune beside it.
func (m *bpe) knowsAll() bool {
	for _, id := range m.byteID {
		if id < 0 && (m.vocab.byteLevel || m.unkName == "" || m.fuseUnk) {
			return false
		}
	}
	return m.vocab.byteLevel || m.byteFallback || m.unkName != "" && !m.fuseUnk
}

// shrinkage is how many times as long as what a normalizer makes of it a text may be; 0: any number of times, or not known.
func shrinkage(n normalizer) int {
	switch n := n.(type) {
	case nil, prepend, byteLevelNormalizer:
		return 1
	case replace:
		if n.pattern == nil && len(n.content) >= len(n.literal) {
			return 1
		}
	case unicodeForm:
		return 4 // three syllables of nine bytes become one of three, and a letter of mathematics of four bytes one of one
	case normalizers:
		all := 1
		for _, part := range n {
			all = min(all*shrinkage(part), math.MaxInt16)
		}
		return all
	}
	return 0
}

// keepsAll reports whether a pre-tokenizer leaves nothing out.
func keepsAll(p preTokenizer) bool {
	switch p := p.(type) {
	case nil, byteLevel, fixedLength:
		return true
	case metaspacer:
		return p.mark != ""
	case split:
		_, tiles := p.matcher.(tilerMatcher)
		return p.behavior != removed || tiles && p.invert
	case preTokenizers:
		for _, part := range p {
			if !keepsAll(part) {
				return false
			}
		}
		return true
	}
	return false
}

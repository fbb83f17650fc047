package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// GPT-2's byte alphabet gives every byte a printable rune: itself where Latin-1 has one, and U+0100 upwards, in order,
// for the 68 bytes where it has none (so that a space is Ġ and a newline Ċ). Vocabularies of byte-level BPE are spelled
// in it. Source: bytes_to_unicode in github.com/openai/gpt-2, src/encoder.py.
var (
	alphabetRune = makeAlphabet()
	alphabetByte = invertAlphabet(alphabetRune) // rune → byte, for runes below 0x180; -1 for others
)

func makeAlphabet() (runes [256]rune) {
	next := rune(0x100)
	for b := range runes {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			runes[b] = rune(b)
		} else {
			runes[b] = next
			next++
		}
	}
	return runes
}

func invertAlphabet(runes [256]rune) (bytes [0x180]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range runes {
		bytes[r] = int16(b)
	}
	return bytes
}

// toAlphabet spells the bytes of s in the byte alphabet.
func toAlphabet(s string) string {
	var out strings.Builder
	out.Grow(len(s) + len(s)/4)
	for i := range len(s) {
		out.WriteRune(alphabetRune[s[i]])
	}
	return out.String()
}

// appendAlphabetBytes appends to dst the bytes that text spells, or returns dst and false when a rune of text is not of
// the alphabet.
func appendAlphabetBytes(dst []byte, text string) ([]byte, bool) {
	start := len(dst)
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if alphabetByte[c] < 0 {
				return dst[:start], false
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r >= rune(len(alphabetByte)) || alphabetByte[r] < 0 {
			return dst[:start], false
		}
		dst = append(dst, byte(alphabetByte[r]))
		i += n
	}
	return dst, true
}

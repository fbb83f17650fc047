package tokenizer

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"
)

// charsmap is the "precompiled_charsmap" of a SentencePiece model: a table from byte strings to the text that replaces
// them. The keys are a double-array trie (darts-clone: 32-bit units with an XOR offset, a label and a leaf mark), the
// replacements are NUL-terminated, and a leaf holds the position of one.
type charsmap struct {
	units        []uint32
	replacements string
}

// newCharsmap reads the blob: the size of the trie in bytes (little-endian uint32), the trie, the replacements.
func newCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) < 4 {
		return nil, errors.New("tokenizer: the precompiled_charsmap is shorter than its 4-byte header")
	}
	size := uint64(binary.LittleEndian.Uint32(blob))
	if size > uint64(len(blob)-4) || size < 4 {
		return nil, errors.New("tokenizer: the precompiled_charsmap says its trie is larger than the map, or empty")
	}
	m := &charsmap{units: make([]uint32, size/4), replacements: string(blob[4+size/4*4:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	if !utf8.ValidString(m.replacements) {
		return nil, errors.New("tokenizer: the replacements of the precompiled_charsmap are not valid UTF-8")
	}
	return m, nil
}

// prefix looks up the starts of s. It returns the replacement of the shortest or the longest start that has one, and
// that start's length, or -1.
func (m *charsmap) prefix(s string, longest bool) (replacement string, length int) {
	length = -1
	if len(m.units) == 0 {
		return "", length
	}
	at := unitOffset(m.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		if int64(at) >= int64(len(m.units)) {
			break // a corrupt map
		}
		unit := m.units[at]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		at ^= unitOffset(unit)
		if unit>>8&1 == 1 && int64(at) < int64(len(m.units)) {
			replacement, length = m.text(m.units[at]&(1<<31-1)), i+1
			if !longest {
				break
			}
		}
	}
	return replacement, length
}

func unitOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func (m *charsmap) text(at uint32) string {
	if int64(at) >= int64(len(m.replacements)) {
		return ""
	}
	s, _, _ := strings.Cut(m.replacements[at:], "\x00")
	return s
}

// normalize applies the map as upstream's Precompiled normalizer does: to whole grapheme clusters below six bytes, by
// their shortest start that has a replacement, and otherwise rune by rune. (SentencePiece itself takes the longest start
// at every position; spmNormalizer does that.)
func (m *charsmap) normalize(s string) string {
	var out strings.Builder
	done := 0 // s[:done] is in out
	put := func(i int, text string, n int) {
		out.WriteString(s[done:i])
		out.WriteString(text)
		done = i + n
	}
	for i := 0; i < len(s); {
		n := clusterLength(s[i:])
		if n < 6 {
			if text, ok := m.prefix(s[i:i+n], false); ok >= 0 {
				put(i, text, n)
				i += n
				continue
			}
		}
		for end := i + n; i < end; {
			_, size := utf8.DecodeRuneInString(s[i:])
			if text, ok := m.prefix(s[i:i+size], false); ok >= 0 {
				put(i, text, size)
			}
			i += size
		}
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

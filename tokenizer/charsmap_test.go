package tokenizer

import (
	"encoding/binary"
	"testing"
)

// buildCharsmap makes a precompiled_charsmap: every node of the trie gets 256 units of its own, so that nothing collides.
func buildCharsmap(pairs [][2]string) []byte {
	units := make([]uint32, 512)
	base := map[string]uint32{"": 256} // prefix → where its children are
	at := map[string]uint32{"": 0}     // prefix → its unit
	units[0] = 256 << 10
	replacements := ""
	for _, p := range pairs {
		for i := range len(p[0]) {
			prefix, key := p[0][:i], p[0][:i+1]
			if _, ok := at[key]; ok {
				continue
			}
			at[key] = base[prefix] ^ uint32(p[0][i])
			base[key] = uint32(len(units))
			units = append(units, make([]uint32, 256)...)
			units[at[key]] = uint32(p[0][i]) | (at[key]^base[key])<<10
		}
		units[at[p[0]]] |= 1 << 8
		units[base[p[0]]] = 1<<31 | uint32(len(replacements))
		replacements += p[1] + "\x00"
	}
	blob := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		blob = binary.LittleEndian.AppendUint32(blob, u)
	}
	return append(blob, replacements...)
}

func testCharsmap(t testing.TB) *charsmap {
	t.Helper()
	m, err := newCharsmap(buildCharsmap([][2]string{{"ﬁ", "fi"}, {"e\u0301", "é"}, {"\u00a0", " "}, {"\r", ""}, {"a", "A"}, {"a\u0308", "ä"}}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCharsmap(t *testing.T) {
	m := testCharsmap(t)
	for in, want := range map[string]string{
		"xﬁ\u00a0y\rz":         "xfi yz",
		"e\u0301":              "é",
		"e\u0301\u0302\u0303x": "e\u0301\u0302\u0303x", // a cluster of seven bytes is taken rune by rune
		"a\u0308":              "A",                    // the shortest start counts, and the rest of the cluster goes
		"":                     "",
		"日本":                   "日本",
	} {
		if got := m.normalize(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	n := &spmNormalizer{charsmap: m, addSpace: true, mergeSpaces: true}
	n.userDefined.add("ﬁ", 7)
	for in, want := range map[string]string{
		" a\u0308\u00a0 b  ": "▁ä▁b", // the longest start counts
		"ﬁe\u0301\u0302":     "▁ﬁé\u0302",
		"":                   "",
	} {
		if got := n.normalize(in); got != want {
			t.Errorf("SentencePiece's normaliser: %q: got %q, want %q", in, got, want)
		}
	}
	n = &spmNormalizer{addSpace: true}
	if got := n.normalize(" a  b"); got != "▁▁a▁▁b" {
		t.Errorf("without merging spaces: got %q", got)
	}
}

func TestCharsmapErrors(t *testing.T) {
	for _, blob := range []string{"", "abc", "\x00\x00\x00\x00", "\xff\xff\xff\xff1234", "\x04\x00\x00\x001234\xff"} {
		if _, err := newCharsmap([]byte(blob)); err == nil {
			t.Errorf("%q is taken for a charsmap", blob)
		}
	}
}

func FuzzCharsmap(f *testing.F) {
	f.Add(buildCharsmap([][2]string{{"ab", "c"}, {"é", "e"}}), "abé")
	f.Add([]byte("\x04\x00\x00\x00\x00\x01\x00\x00x\x00"), "a\x00b")
	f.Fuzz(func(t *testing.T, blob []byte, text string) {
		m, err := newCharsmap(blob)
		if err != nil {
			return
		}
		text = validText(text)
		m.normalize(text)
		(&spmNormalizer{charsmap: m}).normalize(text)
	})
}

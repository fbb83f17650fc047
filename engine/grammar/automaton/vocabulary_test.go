package automaton

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/regex"
)

func TestTwinsAndBands(t *testing.T) {
	long := slices.Repeat([]byte("ab"), 20)
	v, err := NewVocabulary(Tokens{Bytes: [][]byte{[]byte("a"), long, []byte("a"), long[:7], []byte("b"), []byte("a")}, Ends: nil})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.bands) != 3 {
		t.Errorf("tokens of 1, 7 and 40 bytes are in %d bands", len(v.bands))
	}
	g, err := regex.Parse(`(ab)*a?`)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Compile(g, v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	mask := make([]uint32, 1)
	if err := m.Mask(mask); err != nil || mask[0] != 0b101111 {
		t.Errorf("the mask is %06b (%v), want all but b", mask[0], err)
	}
}

package grammar

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestRollback: a matcher that took tokens back, whatever came before and between, is where one is that starts over with the tokens
// that are left.
func TestRollback(t *testing.T) {
	v := grammartest.ByteVocabulary()
	var automata []*Automaton
	for _, pattern := range []string{`(ab|ac){0,1000}`, `abc(d|ef)ghij|abx`, `(a(b(c|d)*e)?){1,7}f?`, `"[a-z]{0,5}"(,"[a-z]{1,3}")*`} {
		g, err := FromRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Compile(g, v)
		if err != nil {
			t.Fatal(err)
		}
		automata = append(automata, a)
	}
	start := func(a *Automaton) *Matcher {
		m, err := a.Start()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(automata).Draw(t, "grammar")
		m, keep := start(a), rapid.IntRange(0, 9).Draw(t, "keep")
		m.Keep(keep)
		mask, want := make([]uint32, v.MaskWords()), make([]uint32, v.MaskWords())
		var accepted []int32
		kept := 0 // tokens that can be taken back, at least
		for range rapid.IntRange(1, 40).Draw(t, "moves") {
			if err := m.Mask(mask); err != nil {
				t.Fatal(err)
			}
			var allowed []int32
			for id := range int32(257) {
				if mask[id/32]>>(id%32)&1 == 1 {
					allowed = append(allowed, id)
				}
			}
			if len(allowed) > 0 && rapid.IntRange(0, 2).Draw(t, "move") > 0 {
				id := rapid.SampledFrom(allowed).Draw(t, "token")
				if err := m.Accept(id); err != nil {
					t.Fatal(err)
				}
				accepted, kept = append(accepted, id), min(kept+1, keep)
				continue
			}
			n := rapid.IntRange(-1, keep+1).Draw(t, "back")
			err := m.Rollback(n)
			if n >= 0 && n <= kept && err != nil || (n < 0 || n > keep || n > len(accepted)) && err == nil {
				t.Fatalf("taking back %d tokens of %d, of which %d are kept: %v", n, len(accepted), kept, err)
			}
			if err == nil {
				accepted, kept = accepted[:len(accepted)-n], max(kept-n, 0)
			}
			fresh := start(a)
			for _, id := range accepted {
				if err := fresh.Accept(id); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Mask(mask); err != nil {
				t.Fatal(err)
			}
			if err := fresh.Mask(want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(mask, want) || m.Done() != fresh.Done() || m.Closed() != fresh.Closed() || !slices.Equal(m.Forced(), fresh.Forced()) {
				t.Fatalf("after %v, %d taken back: another place than from the start", accepted, n)
			}
		}
	})
}

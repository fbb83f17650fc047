package grammar

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// byteVocabulary has a token for every byte, and 256 as its end.
func byteVocabulary(t testing.TB) *Vocabulary {
	t.Helper()
	tokens := make([][]byte, 257)
	for b := range 256 {
		tokens[b] = []byte{byte(b)}
	}
	v, err := NewVocabulary(Tokens{Bytes: tokens, Ends: []int32{256}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// start returns a matcher by bytes, or the error of the grammar.
func start(t testing.TB, g *Grammar, err error) (*Matcher, error) {
	t.Helper()
	if err != nil {
		return nil, err
	}
	a, err := Compile(g, byteVocabulary(t))
	if err != nil {
		return nil, err
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	return m, nil
}

// mustStart is start for grammars that are right.
func mustStart(t testing.TB, g *Grammar, err error) *Matcher {
	t.Helper()
	m, err := start(t, g, err)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// clone is a matcher at the same place that goes its own way.
func (m *Matcher) clone() *Matcher {
	c := *m
	return &c
}

// reads tells whether text is a sentence.
func reads(m *Matcher, text string) bool {
	m = m.clone()
	for _, b := range []byte(text) {
		if m.Accept(int32(b)) != nil {
			return false
		}
	}
	return m.Done()
}

// write makes a random sentence of at most about n tokens, or "" and false if that did not come to an end. After n
// tokens it prefers whatever closes something.
func write(t testingT, m *Matcher, rng *rand.Rand, n int) (string, bool) {
	t.Helper()
	m = m.clone()
	v := m.a.vocab
	mask := make([]uint32, v.MaskWords())
	var text []byte
	for i := range 4 * n {
		if m.Done() && (i >= n || rng.IntN(4) == 0) {
			return string(text), true
		}
		if err := m.Mask(mask); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		var may []int32
		for id := range int32(v.size) {
			if mask[id/32]>>(id%32)&1 == 1 && !v.isEnd(id) {
				may = append(may, id)
			}
		}
		if len(may) == 0 {
			if !m.Done() {
				t.Fatalf("after %q: no token is allowed, though the text is not complete", text)
			}
			return string(text), true
		}
		next := may[rng.IntN(len(may))]
		if i >= n {
			next = closing(v, may, next)
		}
		if err := m.Accept(next); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text = append(text, v.bytes[next]...)
	}
	return "", false
}

// closing picks of the tokens that may come the one likeliest to end something.
func closing(v *Vocabulary, may []int32, otherwise int32) int32 {
	for _, want := range `]}"0e-:,t` {
		for _, id := range may {
			if string(v.bytes[id]) == string(want) {
				return id
			}
		}
	}
	return otherwise
}

// testRand is random numbers that depend on a text alone.
func testRand(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

func exampleVocabulary() *Vocabulary {
	var tokens [][]byte
	for _, s := range []string{"</s>", "v", "1", "2", ".", "1.", "v2.1", "yes", "no", " ", "n", "not", "now"} {
		tokens = append(tokens, []byte(s))
	}
	v, err := NewVocabulary(Tokens{Bytes: tokens, Ends: []int32{0}})
	if err != nil {
		panic(err)
	}
	return v
}

// testingT is what testing.T, testing.B and rapid.T have in common.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

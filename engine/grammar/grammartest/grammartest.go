// Package grammartest has what the tests of grammars share: small vocabularies, and matchers that read and write texts by
// bytes.
package grammartest

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/automaton"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// ByteTokens is a token for every byte, and an empty one, 256, that ends the text.
func ByteTokens() [][]byte {
	tokens := make([][]byte, 257)
	for b := range 256 {
		tokens[b] = []byte{byte(b)}
	}
	return tokens
}

// ByteVocabulary is the vocabulary of byteTokens.
var ByteVocabulary = sync.OnceValue(func() *automaton.Vocabulary {
	v, err := automaton.NewVocabulary(automaton.Tokens{Bytes: ByteTokens(), Ends: []int32{256}})
	if err != nil {
		panic(err)
	}
	return v
})

// Start returns a matcher by bytes, or the error of the grammar.
func Start(t testing.TB, g *syntax.Grammar, err error) (*automaton.Matcher, error) {
	t.Helper()
	if err != nil {
		return nil, err
	}
	a, err := automaton.Compile(g, ByteVocabulary())
	if err != nil {
		return nil, err
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	return m, nil
}

// Letters is a grammar's matcher over a vocabulary of n tokens in which token 3+i is the character '!'+i, up to '}', and token 2 ends a text.
func Letters(t testing.TB, n int, g *syntax.Grammar, err error) *automaton.Matcher {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([][]byte, n)
	for i := 3; i < min(n, 96); i++ {
		tokens[i] = []byte{byte('!' + i - 3)}
	}
	v, err := automaton.NewVocabulary(automaton.Tokens{Bytes: tokens, Ends: []int32{2}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := automaton.Compile(g, v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// MustStart is start for grammars that are right.
func MustStart(t testing.TB, g *syntax.Grammar, err error) *automaton.Matcher {
	t.Helper()
	m, err := Start(t, g, err)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Reads reports whether text is a sentence, by the single bytes. m stays where it is.
func Reads(m *automaton.Matcher, text string) bool {
	c := *m
	for _, b := range []byte(text) {
		if c.Accept(int32(b)) != nil {
			return false
		}
	}
	return c.Done()
}

// Write makes a random sentence of at most about n tokens, or "" and false if that did not come to an end. After n
// tokens it prefers whatever closes something. m stays where it is.
func Write(t TestingT, m *automaton.Matcher, tokens [][]byte, rng *rand.Rand, n int) (string, bool) {
	t.Helper()
	c := *m
	mask := make([]uint32, (len(tokens)+31)/32)
	var text []byte
	for i := range 4 * n {
		if c.Done() && (i >= n || rng.IntN(4) == 0) {
			return string(text), true
		}
		if err := c.Mask(mask); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		var allowed []int32
		for id := range int32(len(tokens)) {
			if mask[id/32]>>(id%32)&1 == 1 && len(tokens[id]) > 0 {
				allowed = append(allowed, id)
			}
		}
		if len(allowed) == 0 {
			if !c.Done() {
				t.Fatalf("after %q: no token is allowed, though the text is not complete", text)
			}
			return string(text), true
		}
		next := allowed[rng.IntN(len(allowed))]
		if i >= n {
			next = closing(tokens, allowed, next)
		}
		if err := c.Accept(next); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text = append(text, tokens[next]...)
	}
	return "", false
}

// closing picks of the allowed tokens the one likeliest to end something.
func closing(tokens [][]byte, allowed []int32, otherwise int32) int32 {
	for _, want := range `]}"0e-:,t` {
		for _, id := range allowed {
			if string(tokens[id]) == string(want) {
				return id
			}
		}
	}
	return otherwise
}

// newRand is random numbers that depend on a text alone.
func Rand(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// ExampleVocabulary is a dozen tokens; 0 ends the text.
func ExampleVocabulary() *automaton.Vocabulary {
	var tokens [][]byte
	for _, s := range []string{"</s>", "v", "1", "2", ".", "1.", "v2.1", "yes", "no", " ", "n", "not", "now"} {
		tokens = append(tokens, []byte(s))
	}
	v, err := automaton.NewVocabulary(automaton.Tokens{Bytes: tokens, Ends: []int32{0}})
	if err != nil {
		panic(err)
	}
	return v
}

// TestingT is what testing.T, testing.B and rapid.T have in common.
type TestingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// llama3 is a real vocabulary of 128,256 tokens.
var llama3 = sync.OnceValues(func() (automaton.Tokens, error) {
	text, err := os.ReadFile("../../../../shared/reference/tokenizers/llama3/tokenizer.json")
	if err != nil {
		return automaton.Tokens{}, err
	}
	var file struct {
		Model  struct{ Vocab map[string]int32 }
		Added_ []struct{ ID int32 } `json:"added_tokens"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return automaton.Tokens{}, err
	}
	tokens := make([][]byte, len(file.Model.Vocab)+len(file.Added_))
	letters := byteLetters()
	for s, id := range file.Model.Vocab {
		for _, r := range s {
			tokens[id] = append(tokens[id], letters[r])
		}
	}
	return automaton.Tokens{Bytes: tokens, Ends: []int32{128001, 128009}}, nil
})

// byteLetters is the letters by which byte-level BPE writes bytes (GPT-2's bytes_to_unicode).
func byteLetters() map[rune]byte {
	letters := map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			letters[rune(b)] = byte(b)
		} else {
			letters[next] = byte(b)
			next++
		}
	}
	return letters
}

// needLlama3 is the tokens of Llama 3 and their vocabulary; without the file the test is skipped.
func Llama3(t testing.TB) (automaton.Tokens, *automaton.Vocabulary) {
	t.Helper()
	tokens, err := llama3()
	if err != nil {
		t.Skipf("the Llama 3 vocabulary is not there: %v", err)
	}
	v, err := automaton.NewVocabulary(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, v
}

// Split splits a text into tokens, the longest that fits each time.
func Split(t automaton.Tokens, text string) (ids []int32) {
	known := map[string]int32{}
	for id, b := range t.Bytes {
		known[string(b)] = int32(id)
	}
	for text != "" {
		n := min(len(text), 64)
		for ; n > 1; n-- {
			if _, ok := known[text[:n]]; ok {
				break
			}
		}
		ids = append(ids, known[text[:n]])
		text = text[n:]
	}
	return ids
}

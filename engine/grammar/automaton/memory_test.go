package automaton

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/gbnf"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// startByBytes returns a matcher with a token for every byte and 256 as its end.
func startByBytes(t *testing.T, g *syntax.Grammar, err error) *Matcher {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	a, err := Compile(g, newByteVocabulary(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newByteVocabulary(t *testing.T) *Vocabulary {
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

// A list written as a rule that ends in itself must not grow the stack.
func TestTailCallsTakeNoStack(t *testing.T) {
	g, err := gbnf.Parse("root ::= \"[\" items \"]\"\nitems ::= item more\nmore ::= \"\" | \",\" items\nitem ::= \"x\" | \"[\" items \"]\"")
	m := startByBytes(t, g, err)
	if err := m.Accept('['); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		for _, b := range []byte("x,") {
			if err := m.Accept(int32(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(m.a.positions); n > 50 {
		t.Errorf("a list of 1000 items has %d positions", n)
	}
}

// Matchers of one automaton share what it knows; run with -race.
func TestManyMatchers(t *testing.T) {
	g, err := gbnf.Parse(`root ::= ([a-z]+ "=" term ("+" term)* "\n")+` + "\n" + `term ::= [a-z] [a-z0-9]* | [0-9]{1,9} | "(" term ("*" term)* ")"`)
	first := startByBytes(t, g, err)
	first.a.memory = 20_000 // so that it forgets now and then
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			mask := make([]uint32, 9)
			for range 20 {
				m := *first
				for range 60 {
					if err := m.Mask(mask); err != nil {
						t.Error(err)
						return
					}
					token := rng.Int32N(257)
					for mask[token/32]>>(token%32)&1 == 0 {
						token = (token + 1) % 257
					}
					if err := m.Accept(token); err != nil {
						t.Errorf("a token of the mask is refused: %v", err)
						return
					}
					if m.ended {
						break
					}
				}
			}
		})
	}
	all.Wait()
	if first.a.age < 2 {
		t.Error("the automaton never forgot")
	}
}

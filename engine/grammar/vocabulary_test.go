package grammar

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
)

// llama3 is a real vocabulary of 128,256 tokens.
var llama3 = sync.OnceValues(func() (*Vocabulary, error) {
	text, err := os.ReadFile("../../../shared/reference/tokenizers/llama3/tokenizer.json")
	if err != nil {
		return nil, err
	}
	var file struct {
		Model  struct{ Vocab map[string]int32 }
		Added_ []struct{ ID int32 } `json:"added_tokens"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	tokens := make([][]byte, len(file.Model.Vocab)+len(file.Added_))
	letters := byteLetters()
	for s, id := range file.Model.Vocab {
		for _, r := range s {
			tokens[id] = append(tokens[id], letters[r])
		}
	}
	return NewVocabulary(Tokens{Bytes: tokens, Ends: []int32{128001, 128009}})
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

func needLlama3(t testing.TB) *Vocabulary {
	t.Helper()
	v, err := llama3()
	if err != nil {
		t.Skipf("the Llama 3 vocabulary is not there: %v", err)
	}
	return v
}

// TestRealVocabulary compares masks over 128,256 tokens with trying every token.
func TestRealVocabulary(t *testing.T) {
	v := needLlama3(t)
	g, err := FromGBNF(jsonGBNF)
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
	mask := make([]uint32, v.MaskWords())
	for _, text := range []string{"", `{"`, `naïve \"text`, `": [1, 2.5e3, {"x`, `y": null}`, `]`, `}`} {
		for _, id := range v.longestFirst([]byte(text)) {
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		for id := range int32(v.size) {
			got := mask[id/32]>>(id%32)&1 == 1
			if want := m.clone().Accept(id) == nil; got != want {
				t.Fatalf("after %q: token %q is allowed: %v, want %v", text, v.bytes[id], got, want)
			}
		}
	}
	if !m.Done() {
		t.Error("the text is not complete")
	}
}

// jsonGBNF is JSON as llama.cpp's users write it, with a bound on white space.
const jsonGBNF = `
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= [ \t\n]{0,20}
`

func TestTwinsAndBands(t *testing.T) {
	long := slices.Repeat([]byte("ab"), 20)
	v, err := NewVocabulary(Tokens{Bytes: [][]byte{[]byte("a"), long, []byte("a"), long[:7], []byte("b"), []byte("a")}, Ends: nil})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.bands) != 3 {
		t.Errorf("tokens of 1, 7 and 40 bytes are in %d bands", len(v.bands))
	}
	g, err := FromRegex(`(ab)*a?`)
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

package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// withAdded makes a tokenizer of the letters a to d and the space, each a token, plus one added token.
func withAdded(t *testing.T, flags, normalizer string) *Tokenizer {
	t.Helper()
	tok, err := FromJSON([]byte(`{"added_tokens": [{"id": 9, "content": "<X>", `+flags+`}], "normalizer": `+normalizer+`,
		"model": {"type": "BPE", "merges": [], "unk_token": "?", "vocab": {"a":0,"b":1,"c":2,"d":3," ":4,"<":5,">":6,"X":7,"x":8,"?":9}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestAddedTokens(t *testing.T) {
	const x = 10 // the first id after the vocabulary, whatever the file says
	for _, c := range []struct {
		flags, normalizer, text string
		parse                   bool
		want                    []int32
	}{
		{`"special": true`, `null`, "a<X>b", true, []int32{0, x, 1}},
		{`"special": true`, `null`, "a<X>b", false, []int32{0, 5, 7, 6, 1}},
		{`"special": false`, `null`, "a<X>b", false, []int32{0, x, 1}},
		{`"special": true`, `null`, "a  <X>  b", true, []int32{0, 4, 4, x, 4, 4, 1}},
		{`"special": true, "lstrip": true`, `null`, "a  <X>  b", true, []int32{0, x, 4, 4, 1}},
		{`"special": true, "rstrip": true`, `null`, "a  <X>  b", true, []int32{0, 4, 4, x, 1}},
		{`"special": true, "lstrip": true, "rstrip": true`, `null`, "<X> <X> b", true, []int32{x, x, 1}},
		{`"special": true, "single_word": true`, `null`, "a<X>b <X> <X>c <X>", true, []int32{0, 5, 7, 6, 1, 4, x, 4, 5, 7, 6, 2, 4, x}},
		{`"special": false, "normalized": true`, `{"type": "Lowercase"}`, "A<x>B", true, []int32{0, x, 1}},
		{`"special": false, "normalized": false`, `{"type": "Lowercase"}`, "A<x><X>", true, []int32{0, 5, 8, 6, x}},
	} {
		got := mustEncode(t, withAdded(t, c.flags, c.normalizer), c.text, Options{ParseSpecial: c.parse})
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s, %s: %q: got %v, want %v", c.flags, c.normalizer, c.text, got, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	const file = `{"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
		"model": {"type": "BPE", "merges": [], "vocab": {"<s>":0,"</s>":1,"a":2," ":3,".":4}}}`
	for config, want := range map[string]string{
		`{}`: "[2] -1 -1 []",
		`{"bos_token": "<s>", "eos_token": {"content": "</s>"}}`:                                                 "[2] 0 1 [1]",
		`{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true}`:                "[0 2 1] 0 1 [1]",
		`{"bos_token": null, "eos_token": "</s>", "add_bos_token": true, "add_eos_token": false}`:                "[2] -1 1 [1]",
		`{"bos_token": "<s>", "add_bos_token": true, "clean_up_tokenization_spaces": true, "other": {"a": [1]}}`: "[0 2] 0 -1 []",
	} {
		tok, err := FromJSON([]byte(file), []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		bos, _ := tok.BOS()
		eos, _ := tok.EOS()
		if got := fmt.Sprint(mustEncode(t, tok, "a", whole), bos, eos, tok.Ends()); got != want {
			t.Errorf("%s: got %s, want %s", config, got, want)
		}
	}
	tok, err := FromJSON([]byte(file), []byte(`{"clean_up_tokenization_spaces": true}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode([]int32{2, 3, 4}, false); got != "a  ." { // no decoder: joined with spaces, then cleaned up
		t.Errorf("got %q", got)
	}
}

func TestTokenBytes(t *testing.T) {
	demo := fixture(t, "demo.json")
	for text, want := range map[string]string{"Ġthe": " the", "Ċ": "\n", "<|im_end|>": "<|im_end|>"} {
		id, added := demo.added.ids[text]
		if !added {
			id = demo.vocab.id(text)
		}
		if got := string(demo.TokenBytes(id)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := demo.TokenBytes(1 << 30); got != nil {
		t.Errorf("a token that is not there has bytes %q", got)
	}
	spm := fixture(t, "spm.json")
	if got := string(spm.TokenBytes(3 + 0xC3)); got != "\xC3" {
		t.Errorf("<0xC3> has bytes %q", got)
	}
	wp := fixture(t, "wordpiece.json")
	if a, b := string(wp.TokenBytes(6)), string(wp.TokenBytes(8)); a != "aff" || b != " want" {
		t.Errorf("##aff and want have bytes %q and %q", a, b)
	}
}

// TestMark: with a mark inside, a special token is only text, and the rest is as it is without any mark.
func TestMark(t *testing.T) {
	const mark = "\ua000"
	for _, name := range referenceTokenizers {
		t.Run(name, func(t *testing.T) {
			tok := fromShared(t, "reference/tokenizers/"+name+"/tokenizer.json")
			special, _ := tok.Controls()
			if len(special) == 0 {
				t.Skip("it has no special tokens")
			}
			for _, s := range special {
				text := "Say " + s + " twice,\n" + s + "!"
				broken := strings.ReplaceAll(text, s, s[:1]+mark+s[1:])
				if s[0] >= 0x80 || s == "<unk>" { // the latter stands for any character that has no token
					continue
				}
				got := mustEncode(t, tok, broken, Options{ParseSpecial: true, Mark: mark})
				// Where the vocabulary has the token as a word too, text alone would make it.
				if want := mustEncode(t, tok, text, Options{}); !slices.Equal(got, want) && !slices.ContainsFunc(want, tok.IsSpecial) {
					t.Errorf("%q: %v; as text it is %v", broken, got, want)
				}
				mixed := mustEncode(t, tok, s+"x"+broken, Options{ParseSpecial: true, Mark: mark})
				if n := count(mixed, tok.added.ids[s]); n != 1 {
					t.Errorf("%q: %d tokens %s in %v, of which one is not marked", broken, n, s, mixed)
				}
			}
		})
	}
}

func count(ids []int32, id int32) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

package grammar

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

func TestChoices(t *testing.T) {
	g, err := FromChoices([]string{"yes", "no", "not now", "no", "ä\"\n"})
	m := grammartest.MustStart(t, g, err)
	for text, want := range map[string]bool{"yes": true, "no": true, "not now": true, "not": false, "ä\"\n": true, "": false, "yesno": false} {
		if got := grammartest.Reads(m, text); got != want {
			t.Errorf("%q is a choice: %v, want %v", text, got, want)
		}
	}
	if _, err := FromChoices(nil); err == nil {
		t.Error("no choices at all give no error")
	}
	if _, err := FromChoices([]string{"a", "\xff"}); err == nil || !strings.Contains(err.Error(), "choice 1") {
		t.Errorf("invalid UTF-8 gives %v", err)
	}
}

func TestForced(t *testing.T) {
	g, err := FromRegex(`abc(d|ef)ghij|abx`)
	m := grammartest.MustStart(t, g, err)
	want := func(text string) {
		t.Helper()
		got := ""
		for _, id := range m.Forced() {
			got += string(rune(id)) // a token is a byte here
		}
		if got != text {
			t.Errorf("%q is forced, want %q", got, text)
		}
	}
	accept := func(text string) {
		t.Helper()
		for _, b := range []byte(text) {
			if err := m.Accept(int32(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want("ab")
	accept("abc")
	want("")
	accept("e")
	want("fghij")
	accept("fghij")
	want("") // the text is complete
	if !m.Done() || !m.Closed() {
		t.Error("a complete text is not done")
	}
	if err := m.Accept(256); err != nil || len(m.Forced()) > 0 || !m.Closed() {
		t.Errorf("after the end: %v, forced %q", err, m.Forced())
	}
}

func TestForcedTokens(t *testing.T) {
	tokens := strings.Fields(`a b c ab abc bc cd x { "k "key key " : ": : : 1 2 "} </s>`)
	var list [][]byte
	for _, s := range tokens {
		list = append(list, []byte(s))
	}
	forced := func(pattern string, encode func(string) []int32) (text []string) {
		t.Helper()
		v, err := NewVocabulary(Tokens{Bytes: list, Ends: []int32{int32(len(list) - 1)}, Encode: encode})
		if err != nil {
			t.Fatal(err)
		}
		g, err := FromRegex(pattern)
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
		for _, id := range m.Forced() {
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
			text = append(text, tokens[id])
		}
		return text
	}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{`\{"key":(1|2)`, []string{"{", `"key`, `":`}},
		{`abc`, []string{"abc"}},
		{`abcd`, []string{"abc"}},       // nothing spells the d
		{`xc(d|x)`, []string{"x"}},      // c may become cd
		{`xc(c|x)`, []string{"x", "c"}}, // it may not
		{`x(a|ab)`, []string{"x"}},      // a or ab is the model's choice
		{`(1|2)x`, nil},
	} {
		if diff := cmp.Diff(c.want, forced(c.pattern, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.pattern, diff)
		}
	}
	letters := func(text string) (ids []int32) {
		for _, b := range []byte(text) {
			ids = append(ids, int32(slices.Index(tokens, string(b))))
		}
		return ids
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, forced(`abc`, letters)); diff != "" {
		t.Errorf("an encoder's tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"abc"}, forced(`abc`, func(string) []int32 { return []int32{7, -1, 1000} })); diff != "" {
		t.Errorf("an encoder's wrong tokens (-want +got):\n%s", diff)
	}
}

func TestMatcherRefusals(t *testing.T) {
	v, err := NewVocabulary(Tokens{Bytes: [][]byte{nil, []byte("a"), {}, []byte("end"), []byte("a")}, Ends: []int32{3}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := FromChoices([]string{"aa"})
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
	if err := m.Mask(mask); err != nil || mask[0] != 0b10010 {
		t.Errorf("the mask is %b (%v), want both tokens a and no special one", mask[0], err)
	}
	for token, want := range map[int32]string{0: "special", 2: "special", 3: "not complete", -1: "vocabulary", 5: "vocabulary"} {
		if err := m.Accept(token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("token %d: %v, want an error with %q", token, err, want)
		}
	}
	for _, token := range []int32{1, 4} {
		if err := m.Accept(token); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Accept(1); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a third a: %v", err)
	}
	if err := m.Accept(3); err != nil {
		t.Fatal(err)
	}
	if err := m.Accept(1); err == nil || !strings.Contains(err.Error(), "after the end") {
		t.Errorf("after the end: %v", err)
	}
	if err := m.Mask(mask); err != nil || mask[0] != 0 {
		t.Errorf("after the end the mask is %b (%v)", mask[0], err)
	}
	if err := m.Mask(nil); err == nil {
		t.Error("a mask of the wrong length is taken")
	}
	if _, err := NewVocabulary(Tokens{Bytes: nil, Ends: []int32{0}}); err == nil {
		t.Error("an end token past the vocabulary is taken")
	}
}

func Example() {
	v := grammartest.ExampleVocabulary()
	g, err := FromChoices([]string{"yes", "no", "not now"})
	if err != nil {
		panic(err) // a sentence for the client: status 400
	}
	a, err := Compile(g, v) // once for all requests with these choices
	if err != nil {
		panic(err) // likewise
	}
	m, err := a.Start() // once a request
	if err != nil {
		panic(err)
	}
	mask := make([]uint32, v.MaskWords())
	for _, token := range []int32{11, 9, 12, 0} { // as the sampler chooses
		if err := m.Mask(mask); err != nil {
			panic(err)
		}
		fmt.Printf("%013b done=%v\n", mask[0], m.Done())
		if err := m.Accept(token); err != nil {
			panic(err)
		}
	}
	// Output:
	// 0110110000000 done=false
	// 0001000000000 done=false
	// 1010100000000 done=false
	// 0000000000001 done=true
}

func ExampleFromRegex() {
	g, _ := FromRegex(`v\d+(\.\d+){0,2}`)
	a, _ := Compile(g, grammartest.ExampleVocabulary())
	m, _ := a.Start()
	for _, token := range []int32{1, 3, 4} { // v, 2, .
		err := m.Accept(token)
		fmt.Println(err, m.Done())
	}
	fmt.Println(m.Accept(10)) // n
	// Output:
	// <nil> false
	// <nil> true
	// <nil> false
	// grammar: token 10 ("n") is not allowed by the grammar here
}

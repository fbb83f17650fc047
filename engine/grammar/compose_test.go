package grammar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// markedVocabulary has a token for every byte, an end (256), and two special tokens, <call> and <think>.
func markedVocabulary(t testing.TB) *Vocabulary {
	t.Helper()
	tokens := make([][]byte, 259)
	for b := range 256 {
		tokens[b] = []byte{byte(b)}
	}
	tokens[257], tokens[258] = []byte("<call>"), []byte("<think>")
	v, err := NewVocabulary(Tokens{Bytes: tokens, Ends: []int32{256}, Special: map[int32]string{257: "<call>", 258: "<think>"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// spelled is the tokens of a text in which [call] and [think] stand for the special tokens.
func spelled(text string) (ids []int32) {
	for i, part := range strings.Split(strings.ReplaceAll(text, "[think]", "[call]\x00"), "[call]") {
		if rest, think := strings.CutPrefix(part, "\x00"); think {
			ids, part = append(ids, 258), rest
		} else if i > 0 {
			ids = append(ids, 257)
		}
		for _, b := range []byte(part) {
			ids = append(ids, int32(b))
		}
	}
	return ids
}

func TestCompose(t *testing.T) {
	v := markedVocabulary(t)
	number, err := FromRegex(`\d{1,300}`) // counted, so that a rule's body has to move with the others
	if err != nil {
		t.Fatal(err)
	}
	object, err := FromJSONSchema([]byte(`{"properties":{"a":{"$ref":"#"}}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	calls := Seq(Special("<call>"), List(Choice(number, object), Text("; ")), Text("."))
	for name, c := range map[string]struct {
		g       *Grammar
		yes, no []string
	}{
		"parts":         {calls, []string{"[call]12; {}; {\"a\":{}}.", "[call]7."}, []string{"<call>7.", "[call].", "[call]7;8.", "[think]7.", "7."}},
		"optional":      {Seq(Optional(Special("<think>")), Space(2), Text("é")), []string{"é", "[think] \né"}, []string{"[think]   é", "[call]é"}},
		"any text":      {AnyText(), []string{"", "<call>\n"}, []string{"[call]"}},
		"free":          {Seq(Free([]string{"<a>", "aab"}, nil), Optional(Text("<a>!"))), []string{"", "<<a", "aaaac<[call]a[think]>", "<<a>!", "aa<a>!"}, []string{"<a>", "x<<a>", "aaaab", "<a>!x", "é<a>."}},
		"special stops": {Seq(Free(nil, []string{"<call>"}), Optional(calls)), []string{"<call>[think]x", "a[think]<[call]1."}, []string{"[call]", "a[call]b", "[call]1.x"}},
	} {
		a, err := Compile(c.g, v)
		if err != nil {
			t.Fatal(err)
		}
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, text := range texts {
				m, err := a.Start()
				if err != nil {
					t.Fatal(err)
				}
				ok := true
				for _, id := range spelled(text) {
					ok = ok && m.Accept(id) == nil
				}
				if ok = ok && m.Done(); ok != want {
					t.Errorf("%s: %q is allowed: %v, want %v", name, text, ok, want)
				}
			}
		}
	}
	a, err := Compile(calls, v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Start()
	if err != nil || !slices.Equal(m.Forced(), []int32{257}) {
		t.Errorf("the special token is not forced: %v %v", m.Forced(), err)
	}
}

// TestFree compares free text with what strings.Contains says, over an alphabet in which stops are likely.
func TestFree(t *testing.T) {
	stops := []string{"aba", "bb", "abcab", "cc"}
	g := Free(stops, nil)
	m := grammartest.MustStart(t, g, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	free := 0
	for range 3000 {
		var text strings.Builder
		for range 1 + rng.IntN(8) {
			text.WriteByte("abc"[rng.IntN(3)])
		}
		want := !slices.ContainsFunc(stops, func(s string) bool { return strings.Contains(text.String(), s) })
		if want {
			free++
		}
		if grammartest.Reads(m, text.String()) != want {
			t.Fatalf("%q is free: %v, want %v", text.String(), !want, want)
		}
	}
	if free < 300 || free > 2700 {
		t.Errorf("%d of 3000 texts are free; the test looks at one side only", free)
	}
}

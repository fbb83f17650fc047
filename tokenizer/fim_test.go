package tokenizer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// withNames reads a tokenizer.json of testdata with more added tokens; these follow on the vocabulary of spm.json with ids from 275 on.
func withNames(t *testing.T, file string, names ...string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var more strings.Builder
	for i, name := range names {
		fmt.Fprintf(&more, `{"id": %d, "content": %q, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},`, 50000+i, name)
	}
	text := string(data)
	at := strings.Index(text, `"added_tokens"`)
	at += strings.Index(text[at:], "[") + 1
	tok, err := FromJSON([]byte(text[:at]+more.String()+text[at:]), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestFIM: the tokens of the families of coders are found by their names.
func TestFIM(t *testing.T) {
	const a, b, c, d, e, f = 275, 276, 277, 278, 279, 280
	for name, x := range map[string]struct {
		names []string
		want  FIM
	}{
		"Qwen2.5-Coder": {[]string{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}, FIM{Prefix: a, Middle: b, Suffix: c, Repo: e, File: f, Ends: []int32{d, e, f}}},
		"StarCoder":     {[]string{"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<filename>", "<reponame>"}, FIM{Prefix: a, Middle: b, Suffix: c, Repo: f, File: e, Ends: []int32{d, e, f}}},
		"StarCoder 2":   {[]string{"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>", "<file_sep>"}, FIM{Prefix: a, Middle: b, Suffix: c, Repo: e, File: f, Ends: []int32{d, e, f}}},
		"CodeLlama":     {[]string{"▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"}, FIM{Prefix: a, Middle: b, Suffix: c, Repo: -1, File: -1, Ends: []int32{d}}},
		"DeepSeek":      {[]string{"<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜fim▁hole｜>"}, FIM{Prefix: a, Middle: b, Suffix: c, Repo: -1, File: -1}},
		"Codestral":     {[]string{"[PREFIX]", "[MIDDLE]", "[SUFFIX]"}, FIM{Prefix: a, Middle: -1, Suffix: c, Repo: -1, File: -1, SuffixFirst: true}},
	} {
		got, ok := withNames(t, "spm.json", x.names...).FIM()
		if !ok || got.Prefix != x.want.Prefix || got.Suffix != x.want.Suffix || got.Middle != x.want.Middle || got.Repo != x.want.Repo ||
			got.File != x.want.File || got.SuffixFirst != x.want.SuffixFirst || !slices.Equal(got.Ends, x.want.Ends) {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
	for _, names := range [][]string{nil, {"<|fim_prefix|>", "<|fim_suffix|>"}, {"<fim_prefix>", "<|fim_suffix|>", "<MID>"}} {
		if f, ok := withNames(t, "spm.json", names...).FIM(); ok {
			t.Errorf("%q: %+v, want none", names, f)
		}
	}
}

// TestEncodeInside: a text that goes on has no space before it, where the beginning of one has; else it is the same.
func TestEncodeInside(t *testing.T) {
	for _, file := range []string{"spm.json", "demo.json", "unigram.json"} {
		tok := withNames(t, file)
		for _, text := range []string{"a", " b", "return x", "\n", "", "(y)", "é"} {
			ids, err := tok.EncodeInside(text, Options{Special: true})
			if err != nil {
				t.Fatal(err)
			}
			front := mustEncode(t, tok, "x", Options{})
			if got := tok.Decode(slices.Concat(front, ids), true); got != tok.Decode(front, true)+text && file != "unigram.json" {
				t.Errorf("%s: %q became %q", file, text, got)
			}
			if start := mustEncode(t, tok, text, Options{}); file == "demo.json" && !slices.Equal(ids, start) && text != "" {
				t.Errorf("%s: %q is %v, and at the beginning %v", file, text, ids, start)
			}
		}
	}
}

package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// shared is the project's reference data, which stands beside the repository where there is any.
const shared = "../../shared"

func readShared(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(shared, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("needs the reference data in %s", shared)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readJSON[T any](t testing.TB, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func fromShared(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := FromJSON(readShared(t, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// whole is how upstream encodes by default.
var whole = Options{Special: true, ParseSpecial: true}

func mustEncode(t testing.TB, tok *Tokenizer, text string, o Options) []int32 {
	t.Helper()
	ids, err := tok.Encode(text, o)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ids
}

var referenceTokenizers = []string{"gpt-neox-20b", "llama3", "phi-3-mini", "qwen2", "trained-bytelevel-1k", "trained-unigram-2k"}

func TestReferenceTokenizers(t *testing.T) {
	texts := readJSON[[]string](t, readShared(t, "reference/tokenizers/texts.json"))
	for _, name := range referenceTokenizers {
		t.Run(name, func(t *testing.T) {
			tok := fromShared(t, "reference/tokenizers/"+name+"/tokenizer.json")
			want := readJSON[[][]int32](t, readShared(t, "reference/tokenizers/"+name+"/ids.json"))
			for i, text := range texts {
				for range 2 { // the second time from the word cache
					if got := mustEncode(t, tok, text, whole); !slices.Equal(got, want[i]) {
						t.Errorf("text %d %q:\n got %v\nwant %v", i, text, got, want[i])
					}
				}
				checkStream(t, tok, want[i])
			}
		})
	}
}

func TestModelPrompts(t *testing.T) {
	type golden struct {
		Prompt     string  `json:"prompt"`
		PromptText string  `json:"prompt_text"`
		PromptIDs  []int32 `json:"prompt_ids"`
		GreedyIDs  []int32 `json:"greedy_ids"`
		GreedyText string  `json:"greedy_text"`
		Cases      []golden
	}
	for _, dir := range []string{"demo", "stories260K/hf", "babyllama-tok105"} {
		tok, err := FromJSON(readShared(t, "models/"+dir+"/tokenizer.json"), readShared(t, "models/"+dir+"/tokenizer_config.json"))
		if err != nil {
			t.Fatal(err)
		}
		g := readJSON[golden](t, readShared(t, "models/"+dir+"/golden.json"))
		for _, c := range append(g.Cases, g) {
			if len(c.PromptIDs) == 0 {
				continue
			}
			if got := mustEncode(t, tok, c.Prompt+c.PromptText, whole); !slices.Equal(got, c.PromptIDs) {
				t.Errorf("%s: %q: got %v, want %v", dir, c.Prompt+c.PromptText, got, c.PromptIDs)
			}
			// llama2.c, which made the files with prompt_text, leaves out BOS and keeps the space before the first word.
			got := tok.Decode(c.GreedyIDs, c.PromptText != "")
			if c.PromptText != "" {
				got = " " + got
			}
			if want := c.GreedyText; got != want {
				t.Errorf("%s: decoded %q, want %q", dir, got, want)
			}
			checkStream(t, tok, c.GreedyIDs)
		}
	}
}

// TestGGUFEqualsJSON reads two vocabularies from both kinds of file.
func TestGGUFEqualsJSON(t *testing.T) {
	texts := readJSON[[]string](t, readShared(t, "reference/tokenizers/texts.json"))
	texts = append(texts, "<|user|>\nHi <|end|>\n<|assistant|> x</s> y")
	for gguf, json := range map[string]string{
		"models/stories260K/stories260K.gguf":             "models/stories260K/hf/tokenizer.json",
		"reference/tokenizers/gguf/ggml-vocab-phi-3.gguf": "reference/tokenizers/phi-3-mini/tokenizer.json",
	} {
		a, _ := fromSharedGGUF(t, gguf)
		b := fromShared(t, json)
		for _, text := range texts {
			x, y := mustEncode(t, a, text, Options{ParseSpecial: true}), mustEncode(t, b, text, Options{ParseSpecial: true})
			if !slices.Equal(x, y) {
				t.Errorf("%s: %q: %v, but %s gives %v", gguf, text, x, json, y)
			}
			if got, want := a.Decode(y, true), b.Decode(y, true); got != want {
				t.Errorf("%s: %v: %q, but %s gives %q", gguf, y, got, json, want)
			}
		}
	}
}

// checkStream compares a stream with Decode, and each of its parts with UTF-8.
func checkStream(t testing.TB, tok *Tokenizer, ids []int32) {
	t.Helper()
	for _, skip := range []bool{false, true} {
		s := tok.NewStream(skip)
		var parts []string
		for _, id := range ids {
			parts = append(parts, s.Push(id))
		}
		parts = append(parts, s.Flush())
		for _, p := range parts {
			if !utf8.ValidString(p) {
				t.Errorf("the stream of %v gave %q, which is not UTF-8", ids, p)
			}
		}
		if got, want := strings.Join(parts, ""), tok.Decode(ids, skip); got != want {
			t.Errorf("the stream of %v gave %q, Decode gives %q", ids, got, want)
		}
	}
}

package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// TestGGUFRoundTrip writes reference tokenizers as GGUF metadata, reads that, and compares ids.
func TestGGUFRoundTrip(t *testing.T) {
	texts := readJSON[[]string](t, readShared(t, "reference/tokenizers/texts.json"))
	for file, want := range map[string]string{
		"reference/tokenizers/gpt-neox-20b/tokenizer.json":         "olmo",
		"reference/tokenizers/llama3/tokenizer.json":               "llama-bpe",
		"reference/tokenizers/qwen2/tokenizer.json":                "qwen2",
		"reference/tokenizers/phi-3-mini/tokenizer.json":           "llama",
		"models/demo/tokenizer.json":                               "deepseek-r1-qwen",
		"models/stories260K/hf/tokenizer.json":                     "llama",
		"models/babyllama-tok105/tokenizer.json":                   "llama",
		"reference/tokenizers/trained-bytelevel-1k/tokenizer.json": "add_prefix_space",
		"reference/tokenizers/trained-unigram-2k/tokenizer.json":   "NFKC",
	} {
		t.Run(file, func(t *testing.T) {
			tok := fromShared(t, file)
			meta, err := tok.GGUF(tok.VocabSize() + 3)
			if err != nil {
				t.Log(err)
				if !strings.Contains(err.Error(), want) {
					t.Errorf("refused with %q, which does not name %q", err, want)
				}
				return
			}
			if meta[keyPre] != want && meta[keyModel] != want {
				t.Errorf("written as model %v, pre %v; want %s", meta[keyModel], meta[keyPre], want)
			}
			if got := len(meta[keyTokens].([]string)); got != tok.VocabSize()+3 {
				t.Errorf("%d tokens for %d rows", got, tok.VocabSize()+3)
			}
			again, err := FromGGUF(meta)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				a, b := mustEncode(t, tok, text, whole), mustEncode(t, again, text, whole)
				if !slices.Equal(a, b) {
					t.Errorf("%q:\n json %v\n gguf %v", text, a, b)
				}
				if x, y := tok.Decode(a, true), again.Decode(a, true); x != y {
					t.Errorf("decoding %v: json %q, gguf %q", a, x, y)
				}
			}
		})
	}
}

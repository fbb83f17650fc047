package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

const tokenizerJSON = `{"version": "1.0", "added_tokens": [
  {"id": 5, "content": "<s>", "special": true}, {"id": 6, "content": "<stop>", "special": true}, {"id": 7, "content": "</s>", "special": true}],
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
 "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4}, "merges": ["a b", "Ġ ab"]}}`

// withText is the small model with a tokenizer, templates and recommendations beside it.
func withText(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(small, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestText: tokenizer, template, sampling and the ends of answers survive the conversion.
func TestText(t *testing.T) {
	dir := withText(t, map[string]string{
		"tokenizer.json":         tokenizerJSON,
		"tokenizer_config.json":  `{"eos_token": "</s>", "bos_token": "<s>", "chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}`,
		"generation_config.json": `{"eos_token_id": [7, 6], "temperature": 0.5, "top_k": 40, "do_sample": true}`,
	})
	s, r := mustConvert(t, dir, "Q8_0")
	for _, note := range r.Notes {
		if !strings.Contains(note, "rows of 80") {
			t.Errorf("note %q", note)
		}
	}
	b, err := modeldir.Open(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tok, err := b.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Encode("ab ab</s>", tokenizer.Options{ParseSpecial: true}); err != nil || !slices.Equal(ids, []int32{2, 4, 7}) {
		t.Errorf("ids %v, %v", ids, err)
	}
	if tok.VocabSize() != 96 || !slices.Contains(tok.Ends(), 6) || !slices.Contains(tok.Ends(), 7) {
		t.Errorf("%d tokens, ends %v", tok.VocabSize(), tok.Ends())
	}
	chat, err := b.TemplateSources(tok)
	if err != nil || chat.Default != "plain" || chat.ToolUse != "tools" || chat.Tokens["eos_token"] != "</s>" || chat.Tokens["bos_token"] != "<s>" {
		t.Errorf("chat %+v, %v", chat, err)
	}
	g, err := b.Generation()
	if err != nil || g.Temperature == nil || *g.Temperature != 0.5 || g.TopK == nil || *g.TopK != 40 || g.Greedy || g.TopP != nil {
		t.Errorf("recommended %+v, %v", g, err)
	}
}

func TestBrokenText(t *testing.T) {
	var many strings.Builder
	for i := range 92 {
		fmt.Fprintf(&many, `, "t%d": %d`, i, 5+i)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no tokenizer", map[string]string{"tokenizer.json": "{"}, "tokenizer"},
		{"too many tokens", map[string]string{"tokenizer.json": strings.Replace(tokenizerJSON, `, "Ġab": 4`, `, "Ġab": 4`+many.String(), 1)}, "the model has 96 rows of embeddings for 100 token ids"},
		{"broken recommendations", map[string]string{"tokenizer.json": tokenizerJSON, "generation_config.json": "["}, "generation_config.json"},
		{"broken template", map[string]string{"tokenizer.json": tokenizerJSON, "tokenizer_config.json": `{"chat_template": 7}`}, "chat_template"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.gguf")
			if _, err := Convert(t.Context(), withText(t, c.files), out, Options{}); err == nil || !strings.Contains(err.Error(), c.want) || exists(out) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

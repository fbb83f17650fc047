package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// Tokens of the built-in model's vocabulary that its copy in infilling has for filling in the middle.
const fimPrefix, fimSuffix, fimMiddle, fimRepo, fimFile = 300, 301, 302, 303, 304

// infilling is the path of a copy of the built-in model whose file names tokens for filling in the middle.
func infilling(t *testing.T) string {
	t.Helper()
	from, err := gguf.FromBytes("demo", builtin.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	meta, keys := from.Metadata, slices.Clone(from.Keys)
	for name, id := range map[string]uint32{"pre": fimPrefix, "suf": fimSuffix, "mid": fimMiddle, "rep": fimRepo, "sep": fimFile} {
		key := "tokenizer.ggml.fim_" + name + "_token_id"
		meta[key], keys = id, append(keys, key)
	}
	var tensors []gguf.Output
	for _, x := range from.Tensors {
		tensors = append(tensors, gguf.Output{Name: x.Name, Format: x.Format, Shape: x.Shape, Data: func(w io.Writer) error { _, err := w.Write(x.Data); return err }})
	}
	path := filepath.Join(t.TempDir(), "coder.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := gguf.Write(f, keys, meta, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInfill: /infill and a suffix of /v1/completions answer as the prompt of token ids that they mean.
func TestInfill(t *testing.T) {
	h, m := startFile(t, infilling(t), ridge.Options{Context: 256}, server.Options{})
	ids := func(text string) []int32 {
		t.Helper()
		all, err := m.Encode(text, false)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	const rest = `"temperature": 0, "max_tokens": 12`
	ask := func(path, body string) string {
		t.Helper()
		status, text := post(t, h, path, "{"+body+", "+rest+"}")
		var a struct {
			Content string
			Choices []struct{ Text string }
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%s %s: %d %s", path, body, status, text)
		}
		if len(a.Choices) > 0 {
			return a.Choices[0].Text
		}
		return a.Content
	}
	prompt := func(parts ...[]int32) string {
		text, _ := json.Marshal(append(bos(t, m), slices.Concat(parts...)...))
		return ask("/v1/completions", fmt.Sprintf(`"prompt": %s, "stop_token_ids": [%d, %d]`, text, fimRepo, fimFile))
	}
	pre, suf, mid, repo, file := []int32{fimPrefix}, []int32{fimSuffix}, []int32{fimMiddle}, []int32{fimRepo}, []int32{fimFile}
	plain := prompt(pre, ids("Once upon a time"), suf, ids(" the end."), mid)
	if got := ask("/v1/completions", `"prompt": "Once upon a time", "suffix": " the end."`); got != plain {
		t.Errorf("suffix: %q, want %q", got, plain)
	}
	if status, text := post(t, h, "/api/generate", `{"prompt": "Once upon a time", "suffix": " the end.", "stream": false, "options": {"temperature": 0, "num_predict": 12}}`); status != 200 || !strings.Contains(text, `"response":`+string(quote(plain))) {
		t.Errorf("/api/generate with suffix: %d %s, want %q", status, text, plain)
	}
	if got := ask("/infill", `"input_prefix": "Once upon", "prompt": " a time", "input_suffix": " the end."`); got != plain {
		t.Errorf("/infill: %q, want %q", got, plain)
	}
	if got, want := ask("/infill", `"input_prefix": "Once"`), prompt(pre, ids("Once"), suf, mid); got != want {
		t.Errorf("/infill without a suffix: %q, want %q", got, want)
	}
	want := prompt(repo, ids("myproject\n"), file, ids("a.txt\nA cat."), file, ids("tmp\nA dog."), file, ids("filename\n"), pre, ids("Once"), suf, ids(" end"), mid)
	if got := ask("/infill", `"input_prefix": "Once", "input_suffix": " end", "input_extra": [{"filename": "a.txt", "text": "A cat."}, {"text": "A dog."}]`); got != want {
		t.Errorf("/infill with other files: %q, want %q", got, want)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/completions", `"prompt": [1, 2], "suffix": "x"`, "prompt of text"},
		{"/v1/completions", `"prompt": "a", "suffix": "x", "echo": true`, "echo is not possible with suffix"},
		{"/infill", `"prompt": ["a", "b"], "input_suffix": "x"`, "one string"},
		{"/infill", `"suffix": "x"`, "input_suffix"},
		{"/infill", `"input_prefix": "x", "n": 2`, "/infill gives one answer"},
	} {
		if status, text := post(t, h, c.path, "{"+c.body+", "+rest+"}"); status != 400 || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want 400 and %s", c.path, c.body, status, text, c.want)
		}
	}
}

// bos is what the model expects at the beginning of a text.
func bos(t *testing.T, m *ridge.Model) []int32 {
	t.Helper()
	with, err := m.Encode("a", true)
	if err != nil {
		t.Fatal(err)
	}
	without, err := m.Encode("a", false)
	if err != nil {
		t.Fatal(err)
	}
	return with[:len(with)-len(without)]
}

// TestInfillRefused: a model without tokens for it refuses by the field's name.
func TestInfillRefused(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 256}, server.Options{})
	for path, body := range map[string]string{"/v1/completions": `{"prompt": "a", "suffix": "b"}`, "/infill": `{"input_prefix": "a", "input_suffix": "b"}`, "/api/generate": `{"prompt": "a", "suffix": "b"}`} {
		if status, text := post(t, h, path, body); status != 400 || !strings.Contains(text, "suffix is not supported by this model: its vocabulary has no tokens for filling in the middle") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

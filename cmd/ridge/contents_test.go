package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// TestShowWhatDoesNotRun: a vocabulary alone, and a model of an unknown architecture, are shown with why they do not run, and their
// tokenizer is the model's; to run them is refused as ever.
func TestShowWhatDoesNotRun(t *testing.T) {
	from, err := gguf.FromBytes("demo", builtin.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var first []gguf.Output
	for _, x := range from.Tensors[:1] {
		first = append(first, gguf.Output{Name: x.Name, Format: x.Format, Shape: x.Shape, Data: func(w io.Writer) error { _, err := w.Write(x.Data); return err }})
	}
	want, err := tokenizer.FromGGUF(from.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		architecture string
		keep         string // the prefix of the metadata in the file, beside the architecture's name
		tensors      []gguf.Output
		problem      string
	}{
		"vocabulary":   {"llama", "tokenizer.", nil, "llama."},
		"no tensors":   {"llama", "", nil, "no tensor"},
		"architecture": {"strange", "", first, `architecture "strange" is not supported`},
	} {
		meta := maps.Clone(from.Metadata)
		maps.DeleteFunc(meta, func(key string, _ any) bool { return !strings.HasPrefix(key, c.keep) })
		meta["general.architecture"] = c.architecture
		path := filepath.Join(t.TempDir(), "x.gguf")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		err = gguf.Write(f, slices.Sorted(maps.Keys(meta)), meta, c.tensors)
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := modeldir.Open(path); err == nil {
			b.Close()
			t.Errorf("%s: it was opened to be run", name)
		}
		var out strings.Builder
		cmd := showCommand()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{path})
		if err := cmd.Execute(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{"Ridge runs it", "no: ", c.problem, c.architecture + ",", "4096 tokens"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
		tok, err := modeldir.OpenTokenizer(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		const text = "Once upon a time"
		got, err := tok.Encode(text, tokenizer.Options{Special: true})
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := want.Encode(text, tokenizer.Options{Special: true}); err != nil || !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v (%v)", name, got, ids, err)
		}
	}
}

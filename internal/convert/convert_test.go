package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

const small = "../check/testdata/llama-default"

func mustType(t *testing.T, name string) Type {
	t.Helper()
	typ, err := ParseType(name)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// mustConvert converts into a new file and opens it.
func mustConvert(t *testing.T, in, typeName string) (*weights.Source, *Result) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "m.gguf")
	r, err := Convert(t.Context(), in, out, Options{Type: mustType(t, typeName)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := weights.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, r
}

func formatOf(t *testing.T, s *weights.Source, name string) quant.Format {
	t.Helper()
	x, err := s.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	return x.Format
}

// TestKeep: without a type matrices stay as they are and vectors become F32.
func TestKeep(t *testing.T) {
	s, r := mustConvert(t, small, "")
	if f := formatOf(t, s, "blk.0.attn_q.weight"); f != quant.BF16 {
		t.Errorf("a matrix became %s", f)
	}
	if f := formatOf(t, s, "blk.0.attn_norm.weight"); f != quant.F32 {
		t.Errorf("a norm became %s", f)
	}
	want := map[string]any{
		"general.architecture": "llama", "general.name": "llama-default", "general.file_type": uint32(32), "general.quantization_version": uint32(2),
		"llama.block_count": uint32(2), "llama.attention.head_count_kv": uint32(2), "llama.vocab_size": uint32(96), "tokenizer.ggml.model": "none",
	}
	for key, v := range want {
		if s.Metadata[key] != v {
			t.Errorf("%s is %v and should be %v", key, s.Metadata[key], v)
		}
	}
	if s.Keys[0] != "general.architecture" {
		t.Errorf("the file begins with %s", s.Keys[0])
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "no tokenizer.json") {
		t.Errorf("notes %q", r.Notes)
	}
}

// TestRequantise takes a GGUF file from one format to another; what does not fit is said.
func TestRequantise(t *testing.T) {
	first, _ := mustConvert(t, small, "F32")
	s, r := mustConvert(t, first.Path, "Q8_0")
	for name, want := range map[string]quant.Format{
		"blk.1.attn_q.weight": quant.Q8_0, "token_embd.weight": quant.Q8_0, "output.weight": quant.Q8_0,
		"blk.1.ffn_down.weight": quant.F16, // rows of 80
		"output_norm.weight":    quant.F32,
	} {
		if got := formatOf(t, s, name); got != want {
			t.Errorf("%s became %s and should be %s", name, got, want)
		}
	}
	if want := []string{"2 matrices: rows of 80 numbers do not divide into Q8_0 blocks of 32: F16 instead"}; !slices.Equal(r.Notes, want) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	if s.Metadata["general.file_type"] != uint32(7) || s.Metadata["llama.block_count"] != uint32(2) || s.Keys[0] != "general.architecture" {
		t.Errorf("metadata %v", s.Metadata)
	}
	a, err := first.Tensor("blk.1.attn_q.weight")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Tensor("blk.1.attn_q.weight")
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, a.Rows*a.Cols), make([]float32, b.Rows*b.Cols)
	quant.Decode(a.Format, x, a.Data)
	quant.Decode(b.Format, y, b.Data)
	for i := range x {
		if d := x[i] - y[i]; d > 0.01 || d < -0.01 {
			t.Fatalf("number %d was %g and is %g", i, x[i], y[i])
		}
	}
	if _, r := mustConvert(t, s.Path, "Q4_0"); !strings.Contains(r.Notes[0], "rounded to Q8_0 before") {
		t.Errorf("notes of a second rounding: %q", r.Notes)
	}
}

// TestWindowNote: what llama.cpp would do differently is said.
func TestWindowNote(t *testing.T) {
	_, r := mustConvert(t, "../check/testdata/mistral-window", "")
	if !slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, "looks back 9 tokens only") }) {
		t.Errorf("notes %q", r.Notes)
	}
	if _, r = mustConvert(t, "../check/testdata/gemma3-pattern", ""); len(r.Notes) != 1 {
		t.Errorf("notes on windows that llama.cpp knows: %q", r.Notes)
	}
}

// TestRefusals: each fault is a sentence, and nothing is written.
func TestRefusals(t *testing.T) {
	first, _ := mustConvert(t, small, "F32")
	dir := t.TempDir()
	for _, c := range []struct{ name, in, out, want string }{
		{"over itself", first.Path, first.Path, "would be written over itself"},
		{"to a directory", first.Path, dir, "is a directory"},
		{"nothing there", filepath.Join(dir, "none"), filepath.Join(dir, "x"), "there is no file or directory"},
		{"no place to write", first.Path, filepath.Join(dir, "none", "x"), "no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Convert(t.Context(), c.in, c.out, Options{Type: mustType(t, "Q8_0")}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

package ridge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/convert"
)

// modelFile writes the built-in model as a type.
func modelFile(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	built := filepath.Join(dir, "built-in.gguf")
	if err := os.WriteFile(built, builtin.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	if kind == "" {
		return built
	}
	as, err := convert.ParseType(kind)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, kind+".gguf")
	if _, err := convert.Convert(context.Background(), built, path, convert.Options{Type: as}); err != nil {
		t.Fatal(err)
	}
	return path
}

func answer(m *ridge.Model) (string, error) {
	p := m.Defaults()
	p.MaxTokens, p.Sampling.Temperature = 8, 0
	text := ""
	for piece, err := range m.Generate(context.Background(), "Once upon a time", p) {
		if err != nil {
			return text, err
		}
		text += piece.Text
	}
	return text, nil
}

// TestModelFileChanged: a file that is cut or rewritten while its model answers ends requests with an error that names it, and no answer
// is made of what was written; in every format, as kernels in assembly read the mapped file in their own ways.
func TestModelFileChanged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped here")
	}
	kinds := []string{"", "F32", "BF16", "F16", "Q4_0", "Q4_K"}
	if testing.Short() {
		kinds = kinds[:2]
	}
	for _, kind := range kinds {
		original, err := os.ReadFile(modelFile(t, kind))
		if err != nil {
			t.Fatal(err)
		}
		for fault, change := range map[string]func(path string, size int64) error{
			"cut to nothing":        func(path string, _ int64) error { return os.Truncate(path, 0) },
			"cut in half":           func(path string, size int64) error { return os.Truncate(path, size/2) },
			"overwritten in place":  func(path string, size int64) error { return os.WriteFile(path, make([]byte, size), 0o600) },
			"overwritten by itself": func(path string, _ int64) error { return rewrite(path) },
		} {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, original, 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := ridge.Load(path, ridge.Options{Threads: 1, Context: 64, Parallel: 2, PrefixIndex: "none"})
			if err != nil {
				t.Fatal(err)
			}
			if text, err := answer(m); err != nil || text == "" || m.Err() != nil || m.Replaced() {
				t.Fatalf("%s: %q, %v, %v", kind, text, err, m.Err())
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(path, info.Size()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				text, err := answer(m)
				if !errors.Is(err, ridge.ErrModelFile) || !strings.Contains(err.Error(), path) || text != "" {
					t.Errorf("%s, %s: %q, %v", kind, fault, text, err)
				}
			}
			if err := m.Err(); !errors.Is(err, ridge.ErrModelFile) || !m.Replaced() {
				t.Errorf("%s, %s: Err is %v", kind, fault, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// rewrite writes a file's own contents over it.
func rewrite(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	for { // until the file system's clock has moved on
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
		if now, err := os.Stat(path); err != nil || !now.ModTime().Equal(info.ModTime()) {
			return err
		}
	}
}

// TestModelFileReplaced: a file that another one takes the name of serves on, and is known to be replaced.
func TestModelFileReplaced(t *testing.T) {
	path := modelFile(t, "")
	m, err := ridge.Load(path, ridge.Options{Threads: 1, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want, err := answer(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", builtin.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if got, err := answer(m); err != nil || got != want || m.Err() != nil {
		t.Errorf("%q, %v, %v; want %q", got, err, m.Err(), want)
	}
	if !m.Replaced() {
		t.Error("a file that was replaced is called the same")
	}
}

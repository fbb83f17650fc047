//go:build unix

package convert

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestCopyRest: what lies beside the weights is copied, also where the model was named by its file of weights; other weights, folders and FIFOs are not.
func TestCopyRest(t *testing.T) {
	from := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer.json", "README.md", "model.safetensors", "model.safetensors.index.json", "consolidated.00.pth", "model-Q4_0.gguf", ".cache"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(from, "original"), 0o700), syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600), os.Symlink("original", filepath.Join(from, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{from, filepath.Join(from, "model.safetensors")} {
		to := t.TempDir()
		if err := copyRest(path, to); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(to)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{"README.md", "config.json", "tokenizer.json"}; !slices.Equal(names, want) {
			t.Errorf("%s: copied are %q, want %q", path, names, want)
		}
	}
}

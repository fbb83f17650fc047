package ridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/price/capacity"
)

// tryIn loads a model in a memory of so many bytes, and closes it.
func tryIn(t *testing.T, memory int64, path string, o Options) error {
	t.Helper()
	r, err := NewRuntime(RuntimeOptions{Memory: memory, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Load(path, o)
	if err == nil {
		err = m.Close()
	}
	return errors.Join(err, r.Close())
}

// TestAlternatives: what is proposed in place of a model that does not fit has room: each proposal is loaded in the memory that was too small. Of contexts it is the longest.
func TestAlternatives(t *testing.T) {
	if testing.Short() {
		t.Skip("some forty models are loaded, one after another")
	}
	dir := t.TempDir()
	packed := filepath.Join(dir, "q8.gguf")
	if err := os.WriteFile(packed, builtin.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(name, from string) string {
		to := filepath.Join(dir, filepath.Base(from)+"."+name+".gguf")
		kind, err := convert.ParseType(name)
		if err == nil {
			_, err = convert.Convert(context.Background(), from, to, convert.Options{Type: kind})
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	float := as("BF16", packed)
	seen := map[string]bool{}
	for _, c := range []struct {
		path   string
		memory int64 // of the weights in MiB: 7.5 packed, 14.1 as floats; the cache takes 8 for a request
		o      Options
		want   string // of the proposals; "": there is none
	}{
		{packed, 2 << 20, Options{}, ""},
		{packed, 6 << 20, Options{}, "--ctx"},
		{packed, 9 << 20, Options{}, "--kv-type int8"},
		{packed, 12 << 20, Options{}, "--ctx"},
		{packed, 14 << 20, Options{}, "--kv-type int8"},
		{packed, 15 << 20, Options{}, "ridge convert --type Q6_K"},
		{packed, 64 << 20, Options{KV: Budget{Bytes: 3 << 20}}, "no --kv-memory"},
		{float, 12 << 20, Options{}, "--kv-type int8 --quantization int4"},
		{float, 18 << 20, Options{}, "--quantization int8 "},
		{float, 20 << 20, Options{}, "--kv-type int8"},
	} {
		c.o.Context = 2048
		err := tryIn(t, c.memory, c.path, c.o)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrMemory) {
			t.Errorf("%s in %d bytes: %v", c.path, c.memory, err)
			continue
		}
		if c.want == "" && len(e.Alternatives) > 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %d MiB: %v; it should propose %q", filepath.Base(c.path), c.memory>>20, err, c.want)
		}
		for _, a := range e.Alternatives {
			seen[strings.Fields(a.Flags + " convert")[0]] = true
			path := c.path
			if a.Type != "" {
				path = as(a.Type, c.path)
			}
			if err := tryIn(t, c.memory, path, a.Options); err != nil {
				t.Errorf("%s in %d MiB: it was said that %s would fit: %v", filepath.Base(c.path), c.memory>>20, a, err)
			}
			if a.Weights+a.Cache > c.memory {
				t.Errorf("%s take more than there is, %d", a, c.memory)
			}
			if longer := a.Options; longer.Context < c.o.Context {
				if longer.Context += 1024; longer.Context < 2048 {
					longer.Context = a.Options.Context + 64
				}
				if tryIn(t, c.memory, path, longer) == nil {
					t.Errorf("%s in %d MiB: %s, and a context of %d would fit too", filepath.Base(c.path), c.memory>>20, a, longer.Context)
				}
			}
		}
	}
	for _, kind := range []string{"--ctx", "--kv-type", "--quantization", "convert", "no"} {
		if !seen[kind] {
			t.Errorf("no case proposes %s", kind)
		}
	}
}

// TestSameSums: what weights take is what ridge plan says.
func TestSameSums(t *testing.T) {
	m, err := Load("", Options{Threads: 1, Context: 64, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, _, err := m.graphOn(m.device, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := weightBytes([]*graph.Graph{g}), capacity.MemoryOf(g, 1, 1).Weights; got != want || got == 0 {
		t.Errorf("the weights take %d bytes, and ridge plan says %d", got, want)
	}
}

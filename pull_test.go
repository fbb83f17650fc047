package ridge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

// TestPull: a program pulls a model by its name and loads it; the second time the hub is not asked.
func TestPull(t *testing.T) {
	h := fakehub.New(t, map[string][]byte{"model-Q8_0.gguf": builtin.GGUF(), "README.md": nil})
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	var last, total int64
	path, err := ridge.Pull(t.Context(), "tiny/model", ridge.PullOptions{Progress: func(done, all int64) { last, total = done, all }})
	if err != nil {
		t.Fatal(err)
	}
	if total == 0 || last != total {
		t.Errorf("progress ended at %d of %d bytes", last, total)
	}
	m, err := ridge.Load(path, ridge.Options{Threads: 1, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	t.Setenv("HF_HUB_OFFLINE", "1")
	if again, err := ridge.Pull(t.Context(), "tiny/model", ridge.PullOptions{}); err != nil || again != path {
		t.Errorf("pulled again: %s, %v; want %s", again, err, path)
	}
	t.Setenv("HF_HUB_OFFLINE", "")
	for name, want := range map[string]error{"llama9": ridge.ErrNoModel, "nothing": ridge.ErrNoModel, "no/such": ridge.ErrNoModel, "tiny/model:Q2_K": ridge.ErrNoModel} {
		if _, err := ridge.Pull(t.Context(), name, ridge.PullOptions{}); !errors.Is(err, want) {
			t.Errorf("%s: %v is not %q", name, err, want)
		}
	}
	h.Token = "another"
	if _, err := ridge.Pull(t.Context(), "tiny/model:Q4_0", ridge.PullOptions{}); !errors.Is(err, ridge.ErrAccess) || errors.Is(err, ridge.ErrNoModel) {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	for name, want := range map[string]string{"llama9": "llama3.2:1b", "nothing": "ORG/REPO", "llama3.2:1b": "HF_HUB_OFFLINE"} {
		if _, err := ridge.Pull(t.Context(), name, ridge.PullOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; %q is wanted", name, err, want)
		}
	}
}

package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

// names are what List shows.
func names(t *testing.T, h *hub.Hub) string {
	t.Helper()
	all, err := h.List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// TestRemove: a model goes with its blobs, and what others need stays.
func TestRemove(t *testing.T) {
	files := repo()
	_, h := start(t, files)
	for _, quant := range []string{":Q4_K_M", ":Q8_0", ":F16"} {
		pull(t, h, fakehub.Repo+quant)
	}
	if got := names(t, h); got != "tiny/model:F16 tiny/model:Q4_K_M tiny/model:Q8_0" {
		t.Fatalf("list: %s", got)
	}
	remove := func(name string) {
		t.Helper()
		found, err := h.Matching(ref(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Remove(found); err != nil {
			t.Fatal(err)
		}
	}
	remove("tiny/model:Q4_K_M")
	blobs, err := os.ReadDir(filepath.Join(h.Dir, "models--tiny--model/blobs"))
	if got := names(t, h); got != "tiny/model:F16 tiny/model:Q8_0" || err != nil || len(blobs) != 3 {
		t.Errorf("left: %s, %d blobs, %v", got, len(blobs), err)
	}
	if _, err := h.Matching(ref(t, "tiny/model:Q4_K_M")); err == nil || !strings.Contains(err.Error(), "ridge list shows what is") {
		t.Errorf("%v", err)
	}
	remove("tiny/model")
	if _, err := os.Stat(filepath.Join(h.Dir, "models--tiny--model")); err == nil || names(t, h) != "" {
		t.Errorf("something is left: %s", names(t, h))
	}
}

// TestForeign: what Hugging Face's own tools downloaded is found. The tree is what huggingface_hub 1.x leaves of
// snapshot_download and of a model of which only the configuration was read.
func TestForeign(t *testing.T) {
	h := &hub.Hub{Endpoint: "http://127.0.0.1:1", Dir: t.TempDir()}
	const commit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	write := func(name, text string) {
		path := filepath.Join(h.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, repo := range []string{"models--org--whole", "models--org--part"} {
		write(repo+"/refs/main", commit)
		write(repo+"/blobs/c0ffee", "{}")
		snap := filepath.Join(h.Dir, repo, "snapshots", commit)
		write(repo+"/snapshots/"+commit+"/README.md", "")
		if err := os.Symlink("../../blobs/c0ffee", filepath.Join(snap, "config.json")); err != nil {
			t.Fatal(err)
		}
	}
	write("models--org--whole/snapshots/"+commit+"/model.safetensors", "weights") // as without symbolic links
	write("models--org--part/blobs/beef.incomplete", "we")
	write("version.txt", "1")
	write("datasets--org--data/refs/main", commit)
	path, err := h.Find(ref(t, "org/whole"))
	if err != nil || path != filepath.Join(h.Dir, "models--org--whole/snapshots", commit) {
		t.Errorf("%s %v", path, err)
	}
	if _, err := h.Find(ref(t, "org/part")); err == nil {
		t.Error("found a model without weights")
	}
	if got := names(t, h); got != "org/whole" {
		t.Errorf("list: %s", got)
	}
}

// TestEnvironment: the variables are those of Hugging Face's tools.
func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", home)
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("stored\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := hub.FromEnvironment("test")
	if err != nil || h.Endpoint != "https://huggingface.co" || h.Dir != filepath.Join(home, "hub") || h.Token != "stored" || h.Offline {
		t.Errorf("%+v %v", h, err)
	}
	t.Setenv("HF_ENDPOINT", "http://mirror/")
	t.Setenv("HF_TOKEN", "mine")
	t.Setenv("HF_HUB_CACHE", "/elsewhere")
	t.Setenv("HF_HUB_OFFLINE", "1")
	if h, err = hub.FromEnvironment("test"); err != nil || h.Endpoint != "http://mirror" || h.Dir != "/elsewhere" || h.Token != "mine" || !h.Offline {
		t.Errorf("%+v %v", h, err)
	}
}

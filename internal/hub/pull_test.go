package hub_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

// random is contents of n bytes.
func random(n int) []byte {
	data := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rng.Read(data)
	return data
}

// repo is a repository with models of several kinds; the large one has three chunks.
func repo() map[string][]byte {
	return map[string][]byte{
		"README.md": []byte("a model"), "config.json": []byte("{}"), "model-Q4_K_M.gguf": random(20 << 20), "model-Q8_0.gguf": random(5000),
		"split/model-F16-00001-of-00002.gguf": random(3000), "split/model-F16-00002-of-00002.gguf": random(2000), "mmproj-model-F16.gguf": random(10),
	}
}

// start makes a hub with an empty cache.
func start(t *testing.T, files map[string][]byte) (*fakehub.Hub, *hub.Hub) {
	t.Helper()
	f := fakehub.New(t, files)
	return f, &hub.Hub{Endpoint: f.URL, Dir: filepath.Join(t.TempDir(), "hub"), Retry: time.Millisecond}
}

func ref(t *testing.T, name string) hub.Ref {
	t.Helper()
	r, err := hub.ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pull(t *testing.T, h *hub.Hub, name string) string {
	t.Helper()
	path, err := h.Pull(context.Background(), ref(t, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, want %d: %v", path, len(got), len(want), err)
	}
}

// TestPull: a model is laid out as Hugging Face's tools do, found again, and not fetched twice.
func TestPull(t *testing.T) {
	files := repo()
	f, h := start(t, files)
	f.Token, h.Token = "secret", "secret"
	if _, err := h.Find(ref(t, fakehub.Repo)); err == nil {
		t.Error("found before it was pulled")
	}
	path := pull(t, h, fakehub.Repo)
	same(t, path, files["model-Q4_K_M.gguf"])
	want := filepath.Join(h.Dir, "models--tiny--model/snapshots", fakehub.Commit, "model-Q4_K_M.gguf")
	if link, err := os.Readlink(path); path != want || err != nil || !strings.HasPrefix(link, "../../blobs/") || len(filepath.Base(link)) != 64 {
		t.Errorf("%s links to %s: %v", path, link, err)
	}
	same(t, filepath.Join(h.Dir, "models--tiny--model/refs/main"), []byte(fakehub.Commit))
	if leaks := f.Leaks(); len(leaks) > 0 {
		t.Errorf("the token was shown to another host: %v", leaks)
	}
	before, _ := f.Served()
	pull(t, h, fakehub.Repo)
	if after, _ := f.Served(); after != before {
		t.Errorf("%d bytes were fetched again", after-before)
	}
	h.Endpoint = "http://127.0.0.1:1" // Find makes no request
	for _, name := range []string{fakehub.Repo, fakehub.Repo + ":q4_k_m", fakehub.Repo + "@" + fakehub.Commit + ":model-Q4_K_M.gguf"} {
		if got, err := h.Find(ref(t, name)); got != path || err != nil {
			t.Errorf("%s is %s: %v", name, got, err)
		}
	}
	if _, err := h.Find(ref(t, fakehub.Repo+":Q8_0")); err == nil {
		t.Error("found what was not pulled")
	}
}

// TestSplit: the parts of a split file come together, into their folder.
func TestSplit(t *testing.T) {
	files := repo()
	_, h := start(t, files)
	path := pull(t, h, fakehub.Repo+":F16")
	same(t, path, files["split/model-F16-00001-of-00002.gguf"])
	same(t, strings.Replace(path, "00001-of", "00002-of", 1), files["split/model-F16-00002-of-00002.gguf"])
}

// TestSafetensors: without GGUF files, the weights come with all that lies around them, and no more.
func TestSafetensors(t *testing.T) {
	files := map[string][]byte{"config.json": []byte("{}"), "tokenizer.json": random(2000), "model-00001-of-00002.safetensors": random(4000), "model-00002-of-00002.safetensors": random(10),
		"model.safetensors.index.json": []byte("{}"), "consolidated.safetensors": random(9000), "pytorch_model.bin": random(9000), "README.md": {}, "original/model.safetensors": random(100)}
	_, h := start(t, files)
	path := pull(t, h, fakehub.Repo)
	var got []string
	list, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		got = append(got, e.Name())
		same(t, filepath.Join(path, e.Name()), files[e.Name()])
	}
	if want := "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
	if found, err := h.Find(ref(t, fakehub.Repo)); found != path || err != nil {
		t.Errorf("%s %v", found, err)
	}
	if err := os.Remove(filepath.Join(path, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Find(ref(t, fakehub.Repo)); err == nil {
		t.Error("found though a part is missing")
	}
}

// TestBrokenConnections: a file arrives whole however often its connections break, and little comes twice.
func TestBrokenConnections(t *testing.T) {
	files := repo()
	f, h := start(t, files)
	f.DropEvery = 3 << 20
	same(t, pull(t, h, fakehub.Repo), files["model-Q4_K_M.gguf"])
	if served, requests := f.Served(); served > 23<<20 || requests < 7 {
		t.Errorf("%d bytes in %d requests for 20 MiB", served, requests)
	}
}

// TestWithoutRanges: a server that sends everything every time is understood.
func TestWithoutRanges(t *testing.T) {
	files := repo()
	f, h := start(t, files)
	f.NoRanges = true
	same(t, pull(t, h, fakehub.Repo), files["model-Q4_K_M.gguf"])
	if served, requests := f.Served(); served != 20<<20 || requests != 1 {
		t.Errorf("%d bytes in %d requests for 20 MiB", served, requests)
	}
}

// TestResume: what was fetched before a pull was stopped is not fetched again.
func TestResume(t *testing.T) {
	files := repo()
	f, h := start(t, files)
	f.Hold(10 << 20) // of 20 MiB
	ctx, cancel := context.WithCancel(context.Background())
	_, err := h.Pull(ctx, ref(t, fakehub.Repo), func(s hub.Status) {
		if s.Done > 9<<20 {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("it was not stopped")
	}
	if all, err := h.List(); err != nil || len(all) != 1 || all[0].Format != "incomplete" || all[0].Bytes < 8<<20 {
		t.Errorf("%+v %v", all, err)
	}
	before, _ := f.Served()
	f.Hold(0)
	var first hub.Status
	path, err := h.Pull(context.Background(), ref(t, fakehub.Repo), func(s hub.Status) {
		if first.Total == 0 {
			first = s
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, path, files["model-Q4_K_M.gguf"])
	if after, _ := f.Served(); after-before > 13<<20 || first.Had < 8<<20 {
		t.Errorf("%d bytes came the second time, %d were there", after-before, first.Had)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, "models--tiny--model/blobs/*.*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDamage: what arrives damaged is thrown away and said to be.
func TestDamage(t *testing.T) {
	f, h := start(t, repo())
	f.Damage = true
	_, err := h.Pull(context.Background(), ref(t, fakehub.Repo), nil)
	if err == nil || !strings.Contains(err.Error(), "model-Q4_K_M.gguf arrived damaged") {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, "models--tiny--model/*/*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	f.Damage = false
	pull(t, h, fakehub.Repo)
}

// TestTwoPulls: of two pulls at once, one fetches and the other waits.
func TestTwoPulls(t *testing.T) {
	f, h := start(t, repo())
	f.Slow = time.Millisecond
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := (&hub.Hub{Endpoint: h.Endpoint, Dir: h.Dir}).Pull(context.Background(), ref(t, fakehub.Repo), nil); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if served, _ := f.Served(); served != 20<<20 {
		t.Errorf("%d bytes were fetched for 20 MiB", served)
	}
}

// TestRefusals: the error says what is wrong and what to do; what may pass is tried again.
func TestRefusals(t *testing.T) {
	for want, c := range map[string]struct {
		name   string
		change func(*fakehub.Hub, *hub.Hub)
	}{
		"tiny/model does not exist, or is not public (status 401); check the name, and if it is private or gated, set HF_TOKEN to a token from": {fakehub.Repo, func(f *fakehub.Hub, _ *hub.Hub) { f.Token = "secret" }},
		"the token in HF_TOKEN":                                   {fakehub.Repo, func(f *fakehub.Hub, h *hub.Hub) { f.Token, h.Token = "secret", "wrong" }},
		"tiny/model/model-Q4_K_M.gguf may not be":                 {fakehub.Repo, func(f *fakehub.Hub, _ *hub.Hub) { f.Gated = true }},
		"there is no model other/model on":                        {"other/model", nil},
		`tiny/model has no revision "v2"`:                         {fakehub.Repo + "@v2", nil},
		"has no GGUF file Q2_K; it has F16, Q4_K_M, Q8_0":         {fakehub.Repo + ":Q2_K", nil},
		"too many requests (status 429); try again in 1h0m0s":     {fakehub.Repo, func(f *fakehub.Hub, _ *hub.Hub) { f.Busy, f.Wait = 1, "3600" }},
		"connection refused":                                      {fakehub.Repo, func(_ *fakehub.Hub, h *hub.Hub) { h.Endpoint = "http://127.0.0.1:1" }},
		"HF_HUB_OFFLINE is set and tiny/model is not complete in": {fakehub.Repo, func(_ *fakehub.Hub, h *hub.Hub) { h.Offline = true }},
		"": {fakehub.Repo + ":Q8_0", func(f *fakehub.Hub, _ *hub.Hub) { f.Busy, f.Wait = 3, "0" }},
	} {
		f, h := start(t, repo())
		if c.change != nil {
			c.change(f, h)
		}
		_, err := h.Pull(context.Background(), ref(t, c.name), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

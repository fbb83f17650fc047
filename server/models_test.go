package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// many is a server of several models in a folder.
type many struct {
	*httptest.Server
	dir   string
	loads map[string]int // how often a model was loaded
	mu    sync.Mutex
}

var manyOptions = ridge.Options{Context: 256, Parallel: 4, Deterministic: true}

// startMany serves the built-in model under several names, with memory for so many of them; 0: for all.
func startMany(t *testing.T, names []string, fit float64, o server.ModelsOptions) *many {
	t.Helper()
	leaks.Check(t)
	var memory int64
	if fit > 0 {
		m, err := ridge.Load("", manyOptions)
		if err != nil {
			t.Fatal(err)
		}
		weights, cache, activations := m.Memory()
		memory = int64(fit * float64(weights+cache+activations))
		m.Close()
	}
	r, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: 1, Memory: memory, CachePart: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	s := &many{dir: t.TempDir(), loads: map[string]int{}}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(s.dir, name+".gguf"), builtin.GGUF(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if o.List == nil {
		o.List = func() (all []server.ModelFile, err error) {
			files, err := filepath.Glob(filepath.Join(s.dir, "*.gguf"))
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".gguf")
				info, err := os.Stat(file)
				if err != nil {
					return nil, err
				}
				all = append(all, server.ModelFile{Name: name, Aliases: []string{"the-" + name}, Path: file, Bytes: info.Size(), Modified: info.ModTime(), Pinned: strings.HasPrefix(name, "pinned")})
			}
			return all, err
		}
	}
	o.Load = func(f server.ModelFile) (*ridge.Model, error) {
		if f.Name == "broken" {
			panic("of a reader of files")
		}
		m, err := r.Load(f.Path, manyOptions)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.loads[f.Name]++
		}
		return m, err
	}
	models, err := server.NewModels(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(models)
	t.Cleanup(func() {
		s.Close()
		models.Close()
		models.CloseModels()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// loaded is the names of the models in memory.
func (s *many) loaded(t *testing.T) (names []string) {
	t.Helper()
	var list struct {
		Models []struct {
			Name    string
			Size    int64
			Context int       `json:"context_length"`
			Expires time.Time `json:"expires_at"`
		}
	}
	_, text := fetch(t, s.URL+"/api/ps")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, m := range list.Models {
		if m.Size <= 0 || m.Context != manyOptions.Context || m.Expires.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("/api/ps: %+v", m)
		}
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func send(url, body string) (status int, text string, err error) {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// say asks a model to go on with a text.
func (s *many) say(t *testing.T, model string, more string, want int) string {
	t.Helper()
	status, text, err := send(s.URL+"/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "Once upon a time", "max_tokens": 6, "temperature": 0%s}`, model, more))
	if err != nil || status != want {
		t.Fatalf("%s: status %d, %v: %s; want %d", model, status, err, text, want)
	}
	return text
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q are loaded, want %q", what, got, want)
	}
}

// TestModels: models are loaded when they are asked for, by any of their names and over any API, and make room for others, those used longest ago first; those that are pinned stay.
func TestModels(t *testing.T) {
	s := startMany(t, []string{"a", "b", "c", "pinned"}, 3.3, server.ModelsOptions{})
	expect(t, "at first", s.loaded(t), "pinned")
	_, list := fetch(t, s.URL+"/v1/models")
	for _, want := range []string{`"id":"a"`, `"id":"b"`, `"id":"c"`, `"status":{"value":"loaded"}`, `"aliases":["the-a"]`} {
		if !strings.Contains(list, want) {
			t.Errorf("/v1/models has no %s: %s", want, list)
		}
	}
	_, tags := fetch(t, s.URL+"/api/tags")
	if strings.Count(tags, `"name"`) != 4 {
		t.Errorf("/api/tags: %s", tags)
	}
	text := parse(t, s.say(t, "a", "", 200)).Choices[0].Text
	if text == "" {
		t.Error("no answer")
	}
	status, chat, err := send(s.URL+"/api/chat", `{"model": "the-b:latest", "stream": false, "messages": [{"role": "user", "content": "Who are you?"}], "options": {"num_predict": 4}}`)
	if err != nil || status != 200 || !strings.Contains(chat, `"model":"b"`) {
		t.Errorf("/api/chat: %d, %v: %s", status, err, chat)
	}
	expect(t, "two more", s.loaded(t), "a", "b", "pinned")
	if got := parse(t, s.say(t, "a", "", 200)).Choices[0].Text; got != text {
		t.Errorf("again: %q, first %q", got, text)
	}
	if got := parse(t, s.say(t, "c", "", 200)).Choices[0].Text; got != text {
		t.Errorf("the third: %q, first %q", got, text)
	}
	expect(t, "b was used longest ago", s.loaded(t), "a", "c", "pinned")
	if status, shown, err := send(s.URL+"/api/show", `{"model": "b"}`); err != nil || status != 200 || !strings.Contains(shown, `"capabilities":["completion"`) {
		t.Errorf("/api/show: %d, %v: %.300s", status, err, shown)
	}
	expect(t, "showing loads nothing", s.loaded(t), "a", "c", "pinned")
	if _, stats := fetch(t, s.URL+"/stats?model=c"); !strings.Contains(stats, `"Model":"c"`) {
		t.Errorf("/stats: %.200s", stats)
	}
	_, metrics := fetch(t, s.URL+"/metrics")
	if !strings.Contains(metrics, `model_name="a"`) || !strings.Contains(metrics, `model_name="c"`) || strings.Count(metrics, "# HELP go_goroutines") != 1 {
		t.Errorf("/metrics lacks one of the models, or has the process twice")
	}
	s.say(t, "a", `, "keep_alive": 0`, 200)
	for end := time.Now().Add(10 * time.Second); slices.Contains(s.loaded(t), "a") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	expect(t, "a was to go", s.loaded(t), "c", "pinned")
}

// TestModelsRefused: what cannot be answered is said, and nothing else suffers from it.
func TestModelsRefused(t *testing.T) {
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{})
	if err := os.WriteFile(filepath.Join(s.dir, "broken.gguf"), []byte("GGUF, and no more"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "cut.gguf"), []byte("GGUF, and no more"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"prompt": "x"}`, 400, "model is missing; there are a, b, broken, cut"},
		{`{"model": "nothing", "prompt": "x"}`, 404, `there is no model \"nothing\" here; there are a, b, broken, cut`},
		{`{"model": "broken", "prompt": "x"}`, 500, "the model broken could not be loaded"}, // by a panic
		{`{"model": "cut", "prompt": "x"}`, 422, "the model cut could not be loaded"},       // which clients do not try again
		{`{"model": "a", "prompt": "x", "keep_alive": "soon"}`, 400, "keep_alive is"},
		{`{"model": "a", "prompt": "x", "max_tokens": -4}`, 400, "max_tokens"},
		{`{"model": "a`, 400, "not valid JSON"},
		{``, 400, "the body is empty"},
	} {
		if status, text, err := send(s.URL+"/v1/completions", c.body); err != nil || status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d, %v: %s; want %d, %q", c.body, status, err, text, c.status, c.want)
		}
	}
	if status, text, err := send(s.URL+"/api/generate", `{"model": "cut", "prompt": "x"}`); err != nil || status != 500 || !strings.Contains(text, "could not be loaded") { // as Ollama's clients know it
		t.Errorf("Ollama's client is given %d, %v: %s", status, err, text)
	}
	s.say(t, "b", "", 200)
	// A model whose file is replaced is loaded again.
	file := filepath.Join(s.dir, "b.gguf")
	if err := os.WriteFile(file+".new", builtin.GGUF(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	s.say(t, "b", "", 200)
	if s.loads["b"] != 2 {
		t.Errorf("b was loaded %d times, its file was replaced once", s.loads["b"])
	}
}

// TestModelsTooLarge: a model for which there is no memory is refused with what would fit, also where others could make room for no use.
func TestModelsTooLarge(t *testing.T) {
	s := startMany(t, []string{"a"}, 0.3, server.ModelsOptions{})
	text := s.say(t, "a", "", 503)
	if a := parse(t, text); a.Error == nil || a.Error.Code != "model_does_not_fit" || !strings.Contains(a.Error.Message, "the model a: ") {
		t.Errorf("%s", text)
	}
	if s.loads["a"] != 0 {
		t.Error("a was loaded")
	}
}

// TestModelsBroken: a panic while a model is loaded fails the requests to it, and no others.
func TestModelsBroken(t *testing.T) {
	s := startMany(t, []string{"a", "broken"}, 0, server.ModelsOptions{})
	for range 2 {
		s.say(t, "broken", "", 500)
		s.say(t, "a", "", 200)
	}
	if names := s.loaded(t); !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v are loaded", names)
	}
}

// TestModelsTakeTurns: a model that is busy makes room for one that waits, once its answers have ended; those that come meanwhile wait for their turn.
func TestModelsTakeTurns(t *testing.T) {
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{Most: 1})
	s.say(t, "a", "", 200)
	resp, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(`{"model": "a", "prompt": "Once", "max_tokens": 150, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, model := range []string{"b", "a", "b"} {
		wg.Go(func() {
			if status, text, err := send(s.URL+"/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "Once", "max_tokens": 3}`, model)); err != nil || status != 200 {
				t.Errorf("%s: %d, %v: %s", model, status, err, text)
			}
		})
	}
	rest, err := io.ReadAll(resp.Body)
	if all := events(t, string(first)+string(rest)); err != nil || len(all) < 100 {
		t.Errorf("the stream that was under way had %d events, %v", len(all), err)
	}
	wg.Wait()
	if got := s.loaded(t); len(got) != 1 {
		t.Errorf("%q are loaded, one may be", got)
	}
}

// TestModelsTogether: many clients ask for more models than there is memory for, some go away; every other answer is what the model says alone.
func TestModelsTogether(t *testing.T) {
	names := []string{"a", "b", "c"}
	s := startMany(t, names, 2.3, server.ModelsOptions{KeepAlive: 20 * time.Millisecond})
	want := parse(t, s.say(t, "a", "", 200)).Choices[0].Text
	var wg sync.WaitGroup
	for i := range 8 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 6 {
				model := names[rng.IntN(len(names))]
				client := http.Client{}
				if rng.IntN(4) == 0 {
					client.Timeout = time.Duration(1+rng.IntN(40)) * time.Millisecond
				}
				resp, err := client.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"model": %q, "prompt": "Once upon a time", "max_tokens": 6, "temperature": 0}`, model)))
				if err != nil {
					if client.Timeout == 0 {
						t.Errorf("%s: %v", model, err)
					}
					continue
				}
				data, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					continue
				}
				var a answer
				if resp.StatusCode != 200 || json.Unmarshal(data, &a) != nil || len(a.Choices) != 1 || a.Choices[0].Text != want {
					t.Errorf("%s: status %d: %s; want %q", model, resp.StatusCode, data, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestModelsTimeout: the time that a request may take counts while its model waits to be loaded.
func TestModelsTimeout(t *testing.T) {
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{Most: 1})
	s.say(t, "a", "", 200)
	resp, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(`{"model": "a", "prompt": "Once", "max_tokens": 200, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, err := http.NewRequest("POST", s.URL+"/v1/completions", strings.NewReader(`{"model": "b", "prompt": "Once", "max_tokens": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Request-Timeout", "20ms")
	late, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Body.Close()
	body, err := io.ReadAll(late.Body)
	if err != nil || late.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), "x-request-timeout") {
		t.Errorf("status %d, %v: %s", late.StatusCode, err, body)
	}
	if s.loads["b"] != 0 {
		t.Error("b was loaded for a request that had gone")
	}
}

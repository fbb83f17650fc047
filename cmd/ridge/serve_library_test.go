package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// managed is a server whose clients may change its models, with a hub and a folder.
type managed struct {
	*httptest.Server
	t   *testing.T
	hub *fakehub.Hub
}

func startManaged(t *testing.T, keys ...access.Key) *managed {
	t.Helper()
	hub := fakehub.New(t, map[string][]byte{"model-Q8_0.gguf": builtin.GGUF(), "README.md": nil})
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_HOME", t.TempDir())
	for _, name := range []string{"HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "AppData"} {
		t.Setenv(name, t.TempDir())
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.gguf"), builtin.GGUF(), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := manyFlags{dirs: []string{dir}, hub: true, manage: true}
	runtime, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := server.NewModels(server.ModelsOptions{Options: server.Options{Keys: keys}, Library: &library{}, Default: "mine",
		List: func() ([]server.ModelFile, error) { return flags.list(nil) },
		Load: func(x server.ModelFile) (*ridge.Model, error) {
			return loadCreated(runtime, x, ridge.Options{Context: 128, Parallel: 2})
		}})
	if err != nil {
		t.Fatal(err)
	}
	s := &managed{httptest.NewServer(m), t, hub}
	t.Cleanup(func() {
		s.Close()
		m.Close()
		m.CloseModels()
		if err := runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// send sends a request, with a key unless it is "", and gives the answer's status and body.
func (s *managed) send(key, method, path, body string) (status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// call is send for an answer that must come with a status.
func (s *managed) call(key, method, path, body string, want int) string {
	s.t.Helper()
	status, text := s.send(key, method, path, body)
	if status != want {
		s.t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, status, want, text)
	}
	return text
}

// says requires that an answer has some words.
func (s *managed) says(text, words string) {
	s.t.Helper()
	if !strings.Contains(text, words) {
		s.t.Errorf("%q is not in %s", words, text)
	}
}

// loaded are the names of the models in memory.
func (s *managed) loaded() (names []string) {
	var list struct{ Models []struct{ Name string } }
	if err := json.Unmarshal([]byte(s.call("", http.MethodGet, "/api/ps", "", 200)), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range list.Models {
		names = append(names, m.Name)
	}
	return names
}

const (
	chatOf    = `{"max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}], "model": `
	ofThePull = "tiny/model:Q8_0"
)

// TestManagePull: a pull tells how far it has come, in the lines that Ollama's clients read, and the model answers at once, by all its names and in all APIs.
func TestManagePull(t *testing.T) {
	s := startManaged(t)
	s.hub.Slow = 20 * time.Millisecond
	s.says(s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 404), "there is no model")
	text := s.call("", http.MethodPost, "/api/pull", `{"model": "hf.co/tiny/model:latest"}`, 200)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if first, last := lines[0], lines[len(lines)-1]; first != `{"status":"pulling manifest"}` || last != `{"status":"success"}` || len(lines) < 4 {
		t.Fatalf("the lines of a pull: %s", text)
	}
	done, size := int64(-1), int64(len(builtin.GGUF()))
	for _, l := range lines[1 : len(lines)-1] {
		var p struct {
			Status, Digest   string
			Total, Completed int64
		}
		if err := json.Unmarshal([]byte(l), &p); err != nil {
			t.Fatal(err)
		}
		if p.Status != "pulling model-Q8_0.gguf" || len(p.Digest) != len("sha256:")+64 || p.Total != size || p.Completed < done || p.Completed > size {
			t.Errorf("a line of the pull of %d bytes: %s", size, l)
		}
		done = p.Completed
	}
	if done != size {
		t.Errorf("the last line says %d bytes of %d", done, size)
	}
	for _, name := range []string{"tiny/model", "tiny/model:latest", "hf.co/tiny/model:Q8_0", "tiny/model:q8_0", ofThePull + ":latest"} {
		s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"`+name+`"}`, 200)
		s.call("", http.MethodPost, "/v1/messages", chatOf+`"`+name+`"}`, 200)
		s.call("", http.MethodPost, "/api/chat", `{"stream": false, "options": {"num_predict": 2}, "messages": [{"role": "user", "content": "Hi"}], "model": "`+name+`"}`, 200)
	}
	s.says(s.call("", http.MethodPost, "/api/pull", `{"name": "tiny/model", "stream": false}`, 200), `"status":"success"`)
	s.says(s.call("", http.MethodPost, "/api/pull", `{"model": "no/such", "stream": false}`, 500), "there is no model no/such on http")
	s.says(s.call("", http.MethodPost, "/api/pull", `{"model": "no/such"}`, 200), `{"error":"there is no model no/such on http`)
	s.says(s.call("", http.MethodPost, "/api/pull", `{"model": "/etc/passwd"}`, 200), "is not a model on the hub")
	s.says(s.call("", http.MethodPost, "/api/pull", `{}`, 400), "model is missing")
	s.says(s.call("", http.MethodPost, "/api/push", `{"model": "tiny/model"}`, 501), "/api/push is not done")
}

// TestManageHangUp: a pull ends with its client, and what has come is kept; while it is under way nothing of its repository is deleted.
func TestManageHangUp(t *testing.T) {
	s := startManaged(t)
	s.hub.Files["model-Q4_0.gguf"] = append(builtin.GGUF(), 0) // the same model in a file of its own
	s.call("", http.MethodPost, "/api/pull", `{"model": "tiny/model:Q8_0"}`, 200)
	before, _ := s.hub.Served()
	s.hub.Hold(before + 1<<20)
	resp, err := http.Post(s.URL+"/api/pull", "application/json", strings.NewReader(`{"model": "tiny/model:Q4_0"}`))
	if err != nil {
		t.Fatal(err)
	}
	for served := before; served == before; served, _ = s.hub.Served() {
		time.Sleep(5 * time.Millisecond)
	}
	const wanted = `{"model": "tiny/model:Q8_0"}`
	s.says(s.call("", http.MethodDelete, "/api/delete", wanted, 400), "is being pulled")
	resp.Body.Close()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		status, text := s.send("", http.MethodDelete, "/api/delete", wanted)
		if status == 200 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("long after the client has gone: %s", text)
		}
	}
	s.hub.Hold(0)
	s.says(s.call("", http.MethodPost, "/api/pull", `{"model": "tiny/model:Q4_0", "stream": false}`, 200), "success")
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 200)
}

// TestManageCopyDelete: a copy is another name, also of a model in memory; a model goes when its last name goes, from memory too, and what clients must not delete stays.
func TestManageCopyDelete(t *testing.T) {
	s := startManaged(t)
	s.call("", http.MethodPost, "/api/pull", `{"model": "tiny/model"}`, 200)
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 200)
	s.call("", http.MethodPost, "/api/copy", `{"source": "tiny/model", "destination": "fast:latest"}`, 200)
	s.says(s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"fast:latest"}`, 200), ofThePull)
	s.says(s.call("", http.MethodGet, "/v1/models/fast", "", 200), ofThePull)
	for destination, why := range map[string]string{"mine": "there is a model", "llama3.2": "means a model of the hub", "a b": "cannot be an alias", ofThePull: "there is a model"} {
		s.says(s.call("", http.MethodPost, "/api/copy", `{"source": "tiny/model", "destination": "`+destination+`"}`, 400), why)
	}
	s.says(s.call("", http.MethodPost, "/api/copy", `{"source": "nothing", "destination": "x"}`, 404), "there is no model")
	s.says(s.call("", http.MethodDelete, "/api/delete", `{"model": "tiny/model"}`, 400), "is also called fast")
	s.says(s.call("", http.MethodDelete, "/api/delete", `{"model": "mine"}`, 400), "--models-dir")
	s.says(s.call("", http.MethodDelete, "/api/delete", `{}`, 400), "model is missing")
	s.says(s.call("", http.MethodGet, "/api/tags", "", 200), `"name":"fast"`)
	s.call("", http.MethodDelete, "/api/delete", `{"name": "fast"}`, 200)
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"fast"}`, 404)
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 200) // only the name has gone
	if names := s.loaded(); !slices.Contains(names, ofThePull) {
		t.Fatalf("in memory are %q", names)
	}
	s.call("", http.MethodDelete, "/api/delete", `{"model": "tiny/model"}`, 200)
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 404)
	s.call("", http.MethodDelete, "/api/delete", `{"model": "tiny/model"}`, 404)
	for began := time.Now(); slices.Contains(s.loaded(), ofThePull); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the deleted model is still in memory")
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("HF_HOME"), "hub", "models--*")); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	s.call("", http.MethodPost, "/api/pull", `{"model": "tiny/model"}`, 200)
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"tiny/model"}`, 200)
	if names := s.loaded(); !slices.Contains(names, ofThePull) { // it stays as any other
		t.Errorf("pulled again and used it is not in memory: %q", names)
	}
}

// TestManageKeys: of a server with keys only those that are marked admin may change models, also where there is one tenant.
func TestManageKeys(t *testing.T) {
	plain, admin := access.NewKey("plain"), access.NewKey("boss")
	plain.Name, admin.Name, admin.Admin = "team", "team", true
	s := startManaged(t, plain, admin)
	for _, c := range [][3]string{{http.MethodPost, "/api/pull", `{"model": "tiny/model"}`}, {http.MethodPost, "/api/copy", `{"source": "tiny/model", "destination": "x"}`}, {http.MethodDelete, "/api/delete", `{"model": "x"}`}} {
		s.says(s.call("plain", c[0], c[1], c[2], 403), "use a key that is marked admin")
		s.call("", c[0], c[1], c[2], 401)
		s.call("boss", c[0], c[1], c[2], 200)
	}
}

package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/store"
)

// key is an API key of a tenant.
func key(secret, name string, l access.Limits) access.Key {
	k := access.NewKey(secret)
	k.Name, k.Limits = name, l
	return k
}

// tenant calls a server with a key.
type tenant struct {
	t   *testing.T
	url string
	key string
}

func (c tenant) call(method, path, body string, header ...string) (status int, text string) {
	c.t.Helper()
	status, _, text = request(c.t, method, c.url+path, body, append([]string{"Authorization", "bearer " + c.key}, header...)...)
	return status, text
}

// upload stores a file and returns its id.
func (c tenant) upload(content string) (status int, id string) {
	c.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("purpose", "batch")
	part, _ := w.CreateFormFile("file", "input.jsonl")
	io.WriteString(part, content)
	w.Close()
	status, text := c.call("POST", "/v1/files", form.String(), "Content-Type", w.FormDataContentType())
	var f store.File
	json.Unmarshal([]byte(text), &f)
	return status, f.ID
}

// serveTenants is a server with a store.
func serveTenants(t *testing.T, o server.Options, q store.Quota) (*httptest.Server, *server.Server) {
	t.Helper()
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st.SetQuota(q)
	o.Store = st
	s := server.New(m, o)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		s.Close()
		leaks.Pages(t, m)
		m.Close()
		st.Close()
	})
	return h, s
}

var aliceAndBob = []access.Key{key("a", "alice", access.Limits{}), key("b", "bob", access.Limits{})}

const batchLine = `{"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 1}}`

// TestTenants: what one key stores, asks and caches does not exist for another; sharing is a switch.
func TestTenants(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h, _ := serveTenants(t, server.Options{Keys: aliceAndBob, Shared: shared}, store.Quota{})
		alice, bob := tenant{t, h.URL, "a"}, tenant{t, h.URL, "b"}
		_, file := alice.upload(batchLine)
		var b store.Batch
		_, text := alice.call("POST", "/v1/batches", `{"input_file_id": "`+file+`", "endpoint": "/v1/completions", "completion_window": "1h"}`)
		if json.Unmarshal([]byte(text), &b) != nil || b.ID == "" {
			t.Fatal(text)
		}
		want := http.StatusNotFound
		if shared {
			want = http.StatusOK
		}
		for _, path := range []string{"/v1/files/" + file, "/v1/files/" + file + "/content", "/v1/batches/" + b.ID} {
			if status, text := alice.call("GET", path, ""); status != 200 {
				t.Errorf("%s of its owner: %d %s", path, status, text)
			}
			if status, text := bob.call("GET", path, ""); status != want {
				t.Errorf("shared %v: %s of another: %d %s", shared, path, status, text)
			}
		}
		for _, path := range []string{"/v1/files", "/v1/batches"} {
			if _, text := bob.call("GET", path, ""); strings.Contains(text, file) != shared {
				t.Errorf("shared %v: another lists %s", shared, text)
			}
		}
		if !shared {
			if status, _ := bob.call("POST", "/v1/batches", `{"input_file_id": "`+file+`", "endpoint": "/v1/completions", "completion_window": "1h"}`); status != 400 {
				t.Errorf("a batch of another's file: %d", status)
			}
			if status, _ := bob.call("POST", "/v1/batches/"+b.ID+"/cancel", ""); status != 404 {
				t.Errorf("another cancels: %d", status)
			}
			if status, _ := bob.call("DELETE", "/v1/files/"+file, ""); status != 404 {
				t.Errorf("another deletes: %d", status)
			}
		}
		for b.Output == "" {
			_, text := alice.call("GET", "/v1/batches/"+b.ID, "")
			json.Unmarshal([]byte(text), &b)
		}
		if status, _ := bob.call("GET", "/v1/files/"+b.Output+"/content", ""); status != want {
			t.Errorf("shared %v: the output of another's batch: %d", shared, status)
		}
		tenantCaches(t, alice, bob, shared)
	}
}

// tenantCaches: no endpoint tells a tenant that another's prompt is cached, nor does a cache_salt; explanations are the tenant's own.
func tenantCaches(t *testing.T, alice, bob tenant, shared bool) {
	t.Helper()
	prompt := strings.Repeat("Once upon a time there was a small fox named Pip. ", 8)
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		body := fmt.Sprintf(`{"prompt": %q, "messages": [{"role": "user", "content": %q}], "max_tokens": 1`, prompt, prompt)
		cached := func(c tenant, more, id string) int {
			status, text := c.call("POST", path, body+more+"}", "X-Request-Id", id)
			if status != 200 {
				t.Fatalf("%s: %d %s", path, status, text)
			}
			return parse(t, text).Usage.Details.Cached
		}
		cached(alice, "", "mine"+path)
		if cached(alice, "", "") == 0 {
			t.Errorf("%s: a tenant's own prompt is not cached", path)
		}
		if n := cached(bob, "", ""); (n > 0) != shared {
			t.Errorf("shared %v: %s: another finds %d tokens cached", shared, path, n)
		}
		if n := cached(bob, `, "cache_salt": "alice"`, ""); n > 0 {
			t.Errorf("%s: with a salt, another finds %d tokens cached", path, n)
		}
		for c, want := range map[tenant]bool{alice: true, bob: shared} {
			if status, text := c.call("GET", "/v1/requests/"+strings.ReplaceAll("mine"+path, "/", "%2F")+"/explain", ""); (status == 200) != want {
				t.Errorf("shared %v: an explanation for %s: %d %s", shared, c.key, status, text)
			}
		}
	}
}

// TestOperator: what the server tells of all tenants, and what changes the model for all, takes a key marked admin where there are several tenants.
func TestOperator(t *testing.T) {
	keys := append([]access.Key{{}}, aliceAndBob...)
	keys[0] = key("o", "ops", access.Limits{})
	keys[0].Admin = true
	h, _ := start(t, ridge.Options{}, server.Options{Keys: keys})
	for _, path := range []string{"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters"} {
		if status, text := (tenant{t, h.URL, "a"}).call("POST", path, `{}`); status != 403 {
			t.Errorf("a tenant changes the model for all at %s: %d %s", path, status, text)
		}
		if status, text := (tenant{t, h.URL, "o"}).call("POST", path, `{}`); status == 403 {
			t.Errorf("%s with the operator's key: %s", path, text)
		}
	}
	for _, path := range []string{"/metrics", "/stats", "/steps"} {
		for secret, want := range map[string]int{"a": 403, "o": 200, "x": 401} {
			if status, text := (tenant{t, h.URL, secret}).call("GET", path, ""); status != want {
				t.Errorf("%s with key %s: %d %.100s", path, secret, status, text)
			}
		}
	}
}

// TestRotation: keys are replaced while the server runs, and what a tenant stored stays its own.
func TestRotation(t *testing.T) {
	h, s := serveTenants(t, server.Options{Keys: aliceAndBob}, store.Quota{})
	_, file := (tenant{t, h.URL, "a"}).upload(batchLine)
	if err := s.SetKeys([]access.Key{key("a2", "alice", access.Limits{})}); err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]int{"a": 401, "b": 401, "a2": 200} {
		if status, _ := (tenant{t, h.URL, secret}).call("GET", "/v1/files/"+file, ""); status != want {
			t.Errorf("key %s: %d", secret, status)
		}
	}
	if err := s.SetKeys(nil); err == nil {
		t.Error("all keys were taken away, and the server answers every client")
	}
}

// TestTenantLimits: beyond its limits a tenant gets 429 with Retry-After, another is not touched.
func TestTenantLimits(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{Keys: []access.Key{
		key("r", "few-requests", access.Limits{Requests: 1}), key("t", "few-tokens", access.Limits{Tokens: 12}), key("b", "bob", access.Limits{})}})
	const body = `{"prompt": "Once upon a time", "max_tokens": 20, "ignore_eos": true}`
	for _, secret := range []string{"r", "t"} {
		c := tenant{t, h.URL, secret}
		if status, text := c.call("POST", "/v1/completions", body); status != 200 {
			t.Fatalf("%s: %d %s", secret, status, text)
		}
		status, header, text := request(t, "POST", h.URL+"/v1/completions", body, "Authorization", "Bearer "+secret)
		if e := parse(t, text).Error; status != 429 || header.Get("Retry-After") == "" || e == nil || e.Code != "rate_limit_exceeded" || e.Type != "rate_limit_error" {
			t.Errorf("%s: %d %v %s", secret, status, header, text)
		}
	}
	if status, text := (tenant{t, h.URL, "t"}).call("POST", "/v1/embeddings", `{"input": "Once upon a time"}`); status != 429 {
		t.Errorf("embeddings are not counted: %d %s", status, text)
	}
	if status, _ := (tenant{t, h.URL, "b"}).call("POST", "/v1/completions", body); status != 200 {
		t.Errorf("another tenant: %d", status)
	}
}

// TestQuota: neither files nor batches of a tenant grow without bound, also by uploads that are under way together.
func TestQuota(t *testing.T) {
	h, _ := serveTenants(t, server.Options{Keys: aliceAndBob}, store.Quota{Bytes: 100 << 10, Batches: 2})
	alice, bob := tenant{t, h.URL, "a"}, tenant{t, h.URL, "b"}
	large := strings.Repeat(batchLine+"\n", 60<<10/len(batchLine))
	status, id := alice.upload(large)
	if status != 200 {
		t.Fatal(status)
	}
	if status, _ := alice.upload(large); status != 429 {
		t.Errorf("120 KiB are stored in a quota of 100: %d", status)
	}
	if status, _ := bob.upload(large); status != 200 {
		t.Errorf("another tenant's file: %d", status)
	}
	if status, _ := alice.call("DELETE", "/v1/files/"+id, ""); status != 200 {
		t.Fatal(status)
	}
	if status, _ := alice.upload(strings.Repeat(`{"custom_id": "x"}`, 3)); status != 200 {
		t.Errorf("after deleting there is no room: %d", status)
	}
}

// TestAudit: the log says of every request which key it was from, from where it came and what it took, and never a secret.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	h, _ := start(t, ridge.Options{}, server.Options{Keys: []access.Key{key("hidden-secret", "alice", access.Limits{})}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	(tenant{t, h.URL, "hidden-secret"}).call("POST", "/v1/completions", `{"prompt": "Once upon a time", "max_tokens": 7, "ignore_eos": true}`)
	(tenant{t, h.URL, "other-secret"}).call("GET", "/v1/models", "")
	h.Close() // the log's lines are written
	text := log.String()
	for _, want := range []string{"key=alice prompt_tokens=4 output_tokens=7", "status=401", "from=127.0.0.1:"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not say %s: %s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// TestForeignPages: without a key, pages of other sites can send nothing, as a text, a form or by rebinding a name; health is told to all.
func TestForeignPages(t *testing.T) {
	h, _ := serveTenants(t, server.Options{}, store.Quota{})
	const body = `{"prompt": "Once", "max_tokens": 1}`
	for _, c := range []struct {
		what, method, path string
		header             []string
		want               int
	}{
		{"its own page", "POST", "/v1/completions", []string{"Origin", h.URL}, 200},
		{"no browser", "POST", "/v1/completions", nil, 200},
		{"text/plain", "POST", "/v1/completions", []string{"Origin", "https://evil.example", "Content-Type", "text/plain"}, 403},
		{"a form", "POST", "/v1/files", []string{"Origin", "https://evil.example", "Content-Type", "multipart/form-data; boundary=x"}, 403},
		{"a batch", "POST", "/v1/batches", []string{"Origin", "null", "Content-Type", "text/plain"}, 403},
		{"a batch without Origin", "POST", "/v1/batches", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"reading", "GET", "/v1/models", []string{"Origin", "https://evil.example"}, 403},
		{"a script", "GET", "/v1/models", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
		{"an image of another port", "GET", "/metrics", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		{"a frame", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"only looking", "HEAD", "/v1/models", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"}, 403},
		{"a link", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"a script of its own page", "GET", "/v1/models", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, 200},
		{"an address that was typed", "GET", "/v1/models", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"rebinding", "POST", "/v1/completions", []string{"Host", "evil.example"}, 403},
		{"rebinding, reading", "GET", "/v1/files", []string{"Host", "evil.example:80"}, 403},
		{"rebinding, the page", "GET", "/", []string{"Host", "evil.example"}, 403},
		{"rebinding, Ollama's API", "POST", "/api/generate", []string{"Host", "evil.example"}, 403},
		{"health", "GET", "/health", []string{"Host", "gpu.cluster.internal"}, 200},
	} {
		if status, _, text := request(t, c.method, h.URL+c.path, body, c.header...); status != c.want {
			t.Errorf("%s: %d %s", c.what, status, text)
		}
	}
	h, _ = serveTenants(t, server.Options{Keys: aliceAndBob, Hosts: []string{"gpu-box"}}, store.Quota{})
	if status, text := (tenant{t, h.URL, "a"}).call("POST", "/v1/completions", body, "Host", "anything.example", "Origin", "https://app.example"); status != 200 {
		t.Errorf("with a key: %d %s", status, text)
	}
}

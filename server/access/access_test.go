package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/server/api"
)

// TestReadKeys: the words after a key are read, mistakes are named by their line and never repeat the secret.
func TestReadKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	read := func(text string) ([]Key, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadKeys(path)
	}
	keys, err := read("# keys\n\nsecret-1 name=alice requests=60 tokens=1000 parallel=2\nsecret-2 name=ops admin\nsecret-3\n")
	if err != nil || len(keys) != 3 || keys[0].Name != "alice" || keys[0].Limits != (Limits{60, 1000, 2}) || !keys[1].Admin || keys[2].Name != NewKey("secret-3").Name || strings.Contains(keys[2].Name, "secret") {
		t.Errorf("%+v %v", keys, err)
	}
	for text, want := range map[string]string{
		"":                              "has no key",
		"# nothing":                     "has no key",
		"secret-1 limit=3":              "line 1",
		"secret-0\nsecret-1 requests=0": "line 2",
		"secret-1 tokens=many":          "tokens",
		"secret-1 name=a/b":             "name",
		"secret-1\nsecret-1 name=b":     "line 2: the key is there twice",
		"secret-1 name=a\nsecret-2 name=a tokens=5": "different limits",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-1") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestOwner: work in the background is the tenant's or, without keys, the address's, whatever the port.
func TestOwner(t *testing.T) {
	owner := func(r *Ring, from, key string) string {
		t.Helper()
		q := httptest.NewRequest("POST", "/", nil)
		q.RemoteAddr = from
		q.Header.Set("Authorization", "Bearer "+key)
		c, ok := r.Client(q)
		if !ok {
			t.Fatalf("%s is no client", from)
		}
		return background.Owner(With(t.Context(), c))
	}
	open, keyed := NewRing(nil, false, time.Now), NewRing([]Key{NewKey("a"), NewKey("b")}, true, time.Now)
	if a, b := owner(open, "[2001:db8::1]:80", ""), owner(open, "[2001:db8::1]:99", ""); a != b || a == owner(open, "10.0.0.1:80", "") {
		t.Errorf("without keys: %q and %q", a, b)
	}
	if a, b := owner(keyed, "10.0.0.1:80", "a"), owner(keyed, "10.0.0.2:80", "a"); a != b || a == owner(keyed, "10.0.0.1:80", "b") {
		t.Errorf("with keys: %q and %q", a, b)
	}
}

// TestClient: the scheme's name may have any case; a key that was replaced does not count any more, its tenant's use of limits does.
func TestClient(t *testing.T) {
	now := time.Unix(1e9, 0)
	a, b := NewKey("a"), NewKey("b")
	a.Name, b.Name, a.Limits, b.Limits = "team", "team", Limits{Requests: 2}, Limits{Requests: 2}
	r := NewRing([]Key{a}, false, func() time.Time { return now })
	client := func(header, value string) *Client {
		q := httptest.NewRequest("POST", "/", nil)
		q.Header.Set(header, value)
		c, ok := r.Client(q)
		if ok != (c != nil) {
			t.Fatalf("%v %v", c, ok)
		}
		return c
	}
	for _, value := range []string{"Bearer a", "bearer a", "BEARER  a"} {
		if client("Authorization", value) == nil {
			t.Errorf("%q is refused", value)
		}
	}
	for _, value := range []string{"", "a", "Basic a", "Bearer b", "Bearer", "Bearer "} {
		if client("Authorization", value) != nil {
			t.Errorf("%q is taken", value)
		}
	}
	if _, err := client("X-Api-Key", "a").Begin(); err != nil {
		t.Fatal(err)
	}
	r.Set([]Key{a, b})
	if _, err := client("Authorization", "Bearer b").Begin(); err != nil {
		t.Fatal(err)
	}
	r.Set([]Key{b})
	if client("Authorization", "Bearer a") != nil {
		t.Error("the old key is taken")
	}
	if _, err := client("Authorization", "Bearer b").Begin(); err == nil {
		t.Error("rotating the key gave its tenant more requests")
	}
	now = now.Add(30 * time.Second)
	if _, err := client("Authorization", "Bearer b").Begin(); err != nil {
		t.Errorf("half a minute later: %v", err)
	}
}

// TestLimits: requests, tokens and requests at once are refused with when to come back, in virtual time.
func TestLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := NewKey("k")
	k.Limits = Limits{Requests: 60, Tokens: 600, Parallel: 2}
	r := NewRing([]Key{k}, false, func() time.Time { return now })
	q := httptest.NewRequest("POST", "/", nil)
	q.Header.Set("Authorization", "Bearer k")
	c, _ := r.Client(q)
	retry := func(err error) int {
		t.Helper()
		var e *api.Error
		if !errors.As(err, &e) || e.Status != http.StatusTooManyRequests || e.Kind != "rate_limit_error" {
			t.Fatalf("%v is no refusal", err)
		}
		return e.Retry
	}
	first, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Begin(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Begin()
	if retry(err) != 1 {
		t.Error(err)
	}
	first()
	first() // ending twice counts once
	if first, err = c.Begin(); err != nil {
		t.Error(err)
	}
	if _, err = c.Begin(); err == nil {
		t.Error("three requests run at once")
	}
	first()
	if err := c.TakePrompt(601); retry(err) != 0 {
		t.Error("a prompt that never fits is to be sent again")
	}
	if err := c.TakePrompt(500); err != nil {
		t.Error(err)
	}
	if err := c.TakePrompt(150); retry(err) != 5 {
		t.Errorf("50 tokens of 600 a minute come back in 5 s: %v", err)
	}
	c.CountOutput(220) // 120 more than there were
	_, err = c.Begin()
	if retry(err) < 12 {
		t.Errorf("the tokens owed are not waited for: %v", err)
	}
	now = now.Add(-time.Hour) // a clock that is set back gives nothing and takes nothing
	if _, err = c.Begin(); err == nil {
		t.Error("the clock was set back and the tokens are there")
	}
	now = now.Add(13 * time.Second)
	if _, err = c.Begin(); err != nil {
		t.Error(err)
	}
	if prompt, output := c.Tokens(); prompt != 500 || output != 220 {
		t.Errorf("the request took %d and %d tokens", prompt, output)
	}
}

// TestBrowser: without keys, only requests for a name of the server and from its own pages are taken.
func TestBrowser(t *testing.T) {
	b := Browser{Hosts: []string{"gpu-box"}, Origins: []string{"https://page.example"}}
	for _, c := range []struct {
		method, host, origin, site, local string
		ok                                bool
	}{
		{"POST", "127.0.0.1:8000", "", "", "", true},
		{"POST", "localhost:8000", "", "", "", true},
		{"POST", "LOCALHOST.:8000", "", "", "", true},
		{"POST", "app.localhost", "", "", "", true},
		{"POST", "[::1]:8000", "", "", "", true},
		{"POST", "", "", "", "", true},
		{"POST", "gpu-box:8000", "", "", "", true},
		{"POST", "GPU-Box", "", "", "", true},
		{"GET", "evil.example:8000", "", "", "", false}, // DNS rebinding
		{"POST", "evil.example", "http://evil.example", "same-origin", "", false},
		{"POST", "127.0.0.1.evil.example", "", "", "", false},
		{"POST", "localhost.evil.example", "", "", "", false},
		{"POST", "evil-localhost", "", "", "", false},
		{"POST", "10.0.0.7", "", "", "127.0.0.1", false},
		{"POST", "10.0.0.7:8000", "", "", "10.0.0.7", true},
		{"POST", "192.168.1.5:8000", "", "", "172.17.0.2", true}, // a port that a container's network forwards
		{"POST", "evil.example", "", "", "10.0.0.7", false},
		{"POST", "127.0.0.1:8000", "http://127.0.0.1:8000", "same-origin", "", true},
		{"POST", "127.0.0.1:8000", "http://127.0.0.1:9000", "same-site", "", false},
		{"POST", "127.0.0.1:8000", "https://evil.example", "cross-site", "", false},
		{"GET", "127.0.0.1:8000", "https://evil.example", "cross-site", "", false},
		{"POST", "127.0.0.1:8000", "null", "cross-site", "", false},
		{"POST", "127.0.0.1:8000", "", "cross-site", "", false},
		{"GET", "127.0.0.1:8000", "", "cross-site", "", false}, // as a script; for a link see server.TestForeignPages
		{"POST", "127.0.0.1:8000", "https://page.example", "cross-site", "", true},
	} {
		q := httptest.NewRequest(c.method, "/v1/chat/completions", nil)
		q.Host = c.host
		if c.local != "" {
			q = q.WithContext(context.WithValue(q.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local)}))
		}
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				q.Header.Set(name, value)
			}
		}
		if err := b.Check(q); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	q := httptest.NewRequest("POST", "/", nil)
	q.Host = "evil.example"
	if err := (Browser{Origins: []string{"*"}}).Check(q); err != nil {
		t.Errorf("all origins are allowed: %v", err)
	}
}

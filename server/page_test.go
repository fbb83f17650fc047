package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// TestPage: the page needs no key and nothing from elsewhere, what it calls exists, and its script names no element that
// is not there.
func TestPage(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{Keys: []access.Key{access.NewKey("secret")}})
	own := []string{"/page/page.css"}
	for _, name := range []string{"api", "conversation", "dom", "engine", "list", "markdown", "message", "page", "settings", "store"} {
		own = append(own, "/page/"+name+".js")
	}
	texts := map[string]string{}
	for _, path := range append(own, "/", "/page/vendor/markdown-it.min.js", "/page/vendor/highlight.min.js", "/page/vendor/katex.min.js") {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != 200 || r.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", path, r.StatusCode, err)
		}
		texts[path] = string(data)
	}
	for _, path := range append(own, "/") {
		if strings.Contains(texts[path], "http:") || strings.Contains(texts[path], "https:") {
			t.Errorf("%s refers to another server", path)
		}
		for _, m := range regexp.MustCompile(`\$\("(\w+)"\)`).FindAllStringSubmatch(texts[path], -1) {
			if !strings.Contains(texts["/"], `id="`+m[1]+`"`) {
				t.Errorf("%s asks for element %s, which the page has not", path, m[1])
			}
		}
	}
	r, err := http.Get(h.URL + "/stats")
	if err != nil || r.StatusCode != 401 {
		t.Fatalf("/stats without a key: %v %v", r, err)
	}
	r.Body.Close()
	q, _ := http.NewRequest("GET", h.URL+"/stats", nil)
	q.Header.Set("Authorization", "Bearer secret")
	if r, err = http.DefaultClient.Do(q); err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(r.Body)
	r.Body.Close()
	for _, m := range regexp.MustCompile(`\bs\.([A-Z]\w+)`).FindAllStringSubmatch(texts["/page/engine.js"], -1) {
		if !strings.Contains(string(data), `"`+m[1]+`":`) {
			t.Errorf("the script reads %s, which /stats has not: %s", m[1], data)
		}
	}
}

// TestSteps: the latest steps are told, oldest first, and a number that is none is refused.
func TestSteps(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	if status, text := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0, "ignore_eos": true}`); status != 200 {
		t.Fatal(text)
	}
	if err := m.Drain(context.Background()); err != nil { // the last step has been noted
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/steps": 20, "/steps?n=2": 2, "/steps?n=9999": 20, "/steps?n=0": 0, "/steps?n=x": 0} {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Steps []ridge.Step }
		err = json.NewDecoder(r.Body).Decode(&list)
		r.Body.Close()
		if err != nil || len(list.Steps) != want || (r.StatusCode == 200) != (want > 0) {
			t.Fatalf("%s: status %d with %d steps, %v; there are %d", path, r.StatusCode, len(list.Steps), err, want)
		}
		for i, s := range list.Steps {
			if s.Requests != 1 || s.Rows < s.Tokens || s.Actual <= 0 || s.Predicted < 0 || i > 0 && s.At < list.Steps[i-1].At {
				t.Errorf("%s: step %d is %+v", path, i, s)
			}
		}
	}
}

package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// TestDashboard: Grafana's dashboard asks for figures that there are, which a server with keys tells without one if it is to.
func TestDashboard(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 64}, server.Options{Keys: []access.Key{access.NewKey("secret")}, OpenMetrics: true})
	q, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": "x", "max_tokens": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer secret")
	q.Header.Set("Content-Type", "application/json")
	if r, err := http.DefaultClient.Do(q); err != nil || r.StatusCode != 200 {
		t.Fatal(r, err)
	} else {
		r.Body.Close()
	}
	r, err := http.Get(h.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%d %v", r.StatusCode, err)
	}
	if r, err := http.Get(h.URL + "/stats"); err != nil || r.StatusCode != 401 {
		t.Errorf("/stats without a key: %v %v", r, err)
	} else {
		r.Body.Close()
	}
	text, err := os.ReadFile("../deploy/grafana/ridge.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatal(len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		for _, x := range p.Targets {
			for _, name := range regexp.MustCompile(`(vllm:|ridge_|process_|go_)[a-z0-9_]+`).FindAllString(x.Expr, -1) {
				if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).Match(metrics) {
					t.Errorf("%s asks for %s, which /metrics does not have", p.Title, name)
				}
			}
		}
	}
}

// TestAbandoned: an answer whose client goes is counted as aborted.
func TestAbandoned(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 4096}, server.Options{})
	r, err := http.Post(h.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 4000, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	for range 2000 {
		r, err := http.Get(h.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^vllm:request_success_total\{.*finished_reason="abort".*\} 1$`).Match(text) {
			return
		}
	}
	t.Error("the answer is not counted as aborted")
}

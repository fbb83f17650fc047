package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// startCascade is a server of the built-in model with the same model before it.
func startCascade(t *testing.T, s server.Stage, st *store.Store) *httptest.Server {
	t.Helper()
	leaks.Check(t)
	r, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	var models [2]*ridge.Model
	for i := range models {
		if models[i], err = r.Load("", ridge.Options{Deterministic: true}); err != nil {
			t.Fatal(err)
		}
	}
	s.Model = models[0]
	x := server.New(models[1], server.Options{Name: "large", Cascade: []server.Stage{s}, Store: st})
	h := httptest.NewServer(x)
	t.Cleanup(func() {
		h.Close()
		x.Close()
		for _, m := range models {
			leaks.Pages(t, m)
			m.Close()
		}
		r.Close()
	})
	return h
}

// TestCascade: with a threshold of 0 the first model answers, with 1 the last, over every API, streamed or not, whatever the client calls them; the answer says which. The
// answer is what the model alone says, with log-probabilities where they were asked for and nowhere else.
func TestCascade(t *testing.T) {
	for _, threshold := range []float64{0, 1} {
		h := startCascade(t, server.Stage{Name: "small", Threshold: threshold}, nil)
		who := map[float64]string{0: "small", 1: "large"}[threshold]
		for path, body := range map[string]string{
			"/v1/completions":      `{"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}`,
			"/v1/chat/completions": `{"model": "large", "messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 8, "temperature": 0}`,
			"/v1/responses":        `{"input": "Tell me a story", "max_output_tokens": 8, "temperature": 0}`,
			"/v1/messages":         `{"model": "large", "messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 8, "temperature": 0}`,
			"/api/chat":            `{"model": "large", "messages": [{"role": "user", "content": "Tell me a story"}], "stream": false, "options": {"num_predict": 8}}`,
			"/api/generate":        `{"model": "large", "prompt": "Tell me a story", "options": {"num_predict": 8}}`,
		} {
			r, text := answered(t, h, path, body)
			if r.StatusCode != http.StatusOK || r.Header.Get("X-Ridge-Model") != who || !strings.Contains(text, `"model":"`+who+`"`) || strings.Contains(text, `"logprobs":{`) {
				t.Errorf("threshold %g, %s: status %d, answered by %q (%s): %s", threshold, path, r.StatusCode, r.Header.Get("X-Ridge-Model"), r.Header.Get("X-Ridge-Cascade"), text)
			}
		}
		r, text := answered(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 4, "stream": true, "logprobs": true}`)
		if strings.Count(text, "data: ") < 5 || !strings.HasSuffix(text, "data: [DONE]\n\n") || !strings.Contains(text, `"logprob":`) || r.Header.Get("Content-Type") != "text/event-stream" || r.Header.Get("X-Ridge-Model") != who {
			t.Errorf("threshold %g: a stream of %s: %s", threshold, r.Header.Get("X-Ridge-Model"), text)
		}
		if _, text := answered(t, h, "/v1/completions", `{"prompt": 5, "model": "none"}`); !strings.Contains(text, "model_not_found") && !strings.Contains(text, "prompt") {
			t.Errorf("threshold %g: a bad request got %s", threshold, text)
		}
		get, err := http.Get(h.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		metrics, _ := io.ReadAll(get.Body)
		get.Body.Close()
		for _, name := range []string{"small", "large"} {
			if !strings.Contains(string(metrics), `model_name="`+name+`"`) {
				t.Errorf("the metrics lack those of %s", name)
			}
		}
		id := r.Header.Get("X-Request-Id")
		if get, err = http.Get(h.URL + "/v1/requests/" + id + "/explain"); err != nil || get.StatusCode != http.StatusOK {
			t.Errorf("threshold %g: explaining %s: %v", threshold, id, err)
		}
		get.Body.Close()
	}
}

// TestCascadeConsistency: answers beside one say how sure a model is of it, and are not part of the client's.
func TestCascadeConsistency(t *testing.T) {
	h := startCascade(t, server.Stage{Name: "small", Threshold: 0, Samples: 3}, nil)
	r, text := answered(t, h, "/v1/completions", `{"prompt": "Once upon a time", "max_tokens": 8, "n": 2, "temperature": 0.5, "seed": 1}`)
	var a struct {
		Choices []json.RawMessage
		Usage   struct {
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) != 2 || a.Usage.Completion > 16 || r.Header.Get("X-Ridge-Model") != "small" {
		t.Errorf("%v: %s", err, text)
	}
	if got := r.Header.Get("X-Ridge-Cascade"); !strings.HasPrefix(got, "small 0.") && !strings.HasPrefix(got, "small 1.") {
		t.Errorf("the cascade says %q", got)
	}
}

// TestCascadePassesRefusals: what the first model refuses, such as a prompt that is too long for it, the last is asked, from the beginning of the body.
func TestCascadePassesRefusals(t *testing.T) {
	leaks.Check(t)
	r, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	small, err := r.Load("", ridge.Options{Context: 32})
	if err != nil {
		t.Fatal(err)
	}
	large, err := r.Load("", ridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := server.New(large, server.Options{Cascade: []server.Stage{{Model: small, Threshold: 0}}})
	h := httptest.NewServer(x)
	defer func() {
		h.Close()
		x.Close()
		for _, m := range []*ridge.Model{small, large} {
			leaks.Pages(t, m)
			m.Close()
		}
		r.Close()
	}()
	a, text := answered(t, h, "/v1/completions", `{"prompt": "`+strings.Repeat("Once upon a time there was a fox. ", 20)+`", "max_tokens": 4}`)
	if a.StatusCode != http.StatusOK || a.Header.Get("X-Ridge-Model") != large.Name() || !strings.Contains(a.Header.Get("X-Ridge-Cascade"), "refused with status 400") {
		t.Errorf("status %d, %v: %s", a.StatusCode, a.Header, text)
	}
}

// TestCascadeFails: an answer of the first model that ends with an error in the middle of a stream is not the client's, however sure the model was until then.
func TestCascadeFails(t *testing.T) {
	h := startCascade(t, server.Stage{Name: "small", Threshold: 0}, nil)
	r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": "Once", "max_tokens": 2000, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Request-Timeout", "100ms") // in which no model has as many
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); a.Header.Get("X-Ridge-Model") != "large" || !strings.HasPrefix(a.Header.Get("X-Ridge-Cascade"), "small failed") {
		t.Errorf("status %d, %v: %.300s, %v", a.StatusCode, a.Header, text, err)
	}
}

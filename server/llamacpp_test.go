package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestLlamaCpp: the endpoints that llama.cpp's clients call: the same continuation whole, streamed and as OpenAI's.
func TestLlamaCpp(t *testing.T) {
	h, m := start(t, ridge.Options{Context: 256}, server.Options{Name: "demo"})
	const once = `"prompt": "Once upon a time", "temperature": 0, "n_predict": 12`
	_, text := post(t, h, "/v1/completions", "{"+once+"}")
	want := parse(t, text).Choices[0].Text
	type answer struct {
		Content   string
		Stop      bool
		Tokens    []int32
		Model     string
		Kind      string `json:"stop_type"`
		Word      string `json:"stopping_word"`
		Predicted int    `json:"tokens_predicted"`
		Evaluated int    `json:"tokens_evaluated"`
		Timings   struct {
			N int `json:"predicted_n"`
		}
	}
	read := func(text string) (a answer) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return a
	}
	_, text = post(t, h, "/completion", "{"+once+"}")
	if a := read(text); a.Content != want || !a.Stop || a.Kind != "limit" || a.Predicted != 12 || a.Evaluated == 0 || a.Timings.N != 12 || a.Model != "demo" || m.Decode(a.Tokens) != want {
		t.Errorf("%s, want %q", text, want)
	}
	_, text = post(t, h, "/completion", "{"+once+`, "stream": true}`)
	var whole strings.Builder
	var last answer
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			last = read(data)
			whole.WriteString(last.Content)
		}
	}
	if whole.String() != want || !last.Stop || last.Predicted != 12 {
		t.Errorf("streamed: %q, want %q; last %+v", whole.String(), want, last)
	}
	var likely struct {
		All []struct {
			ID      int32
			Token   string
			Bytes   []int
			Logprob float64
			Top     []struct {
				ID      int32
				Logprob float64
			} `json:"top_logprobs"`
		} `json:"completion_probabilities"`
	}
	_, text = post(t, h, "/completion", "{"+once+`, "n_probs": 3}`)
	if err := json.Unmarshal([]byte(text), &likely); err != nil || len(likely.All) != 12 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, x := range likely.All { // greedy: the likeliest is what came
		if len(x.Top) != 3 || x.Top[0].ID != x.ID || x.Top[0].Logprob != x.Logprob || x.Logprob > 0 || x.Top[1].Logprob > x.Logprob || len(x.Bytes) == 0 {
			t.Errorf("%+v", x)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(want), " ")
	_, text = post(t, h, "/completion", "{"+once+`, "stop": ["`+first+`"]}`)
	if a := read(text); a.Kind != "word" || a.Word != first || strings.Contains(a.Content, first) {
		t.Errorf("%s, want to stop at %q", text, first)
	}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/completion", `{"prompt": ["a", "b"]}`, 400, "/v1/completions several"},
		{"/completion", `{"prompt": "a", "mirostat": 3}`, 400, "mirostat is 3"},
		{"/completion", `{"prompt": "a", "n_probs": 21}`, 400, "n_probs is 21; 0 to 20"},
		{"/completion", `{"prompt": "a", "n_probs": 2, "logprobs": 3}`, 400, "they mean the same"},
		{"/completion", `{"prompt": "a", "n_probs": 2, "tfs_z": 0.5}`, 400, "tfs_z"},
		{"/apply-template", `{"messages": [{"role": "user", "content": "Hi there"}]}`, 200, "Hi there"},
		{"/tokenize", `{"content": "Once upon"}`, 200, `"tokens":[`},
		{"/tokenize", `{"content": "Once", "with_pieces": true}`, 200, `"piece":`},
		{"/detokenize", `{"tokens": [5, 6]}`, 200, `"content":`},
	} {
		if status, text := post(t, h, c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want %d and %s", c.path, c.body, status, text, c.status, c.want)
		}
	}
	for path, want := range map[string][]string{"/props": {`"n_ctx":256`, `"total_slots":`, `"chat_template":"`}, "/slots": {`"is_processing":false`}} {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		for _, s := range want {
			if err != nil || !strings.Contains(string(text), s) {
				t.Errorf("%s: %.300s, want %s", path, text, s)
			}
		}
	}
}

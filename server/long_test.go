package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestLongPrompts: every API refuses a prompt many times as long as the context without reading it to its end, says of one a little too long how long it is, and
// cuts where that is asked for.
func TestLongPrompts(t *testing.T) {
	h, m := start(t, ridge.Options{Context: 64}, server.Options{})
	far, near := strings.Repeat("Once upon a time ", 100_000), strings.Repeat("Once upon a time ", 40)
	ids, err := m.Encode(near, true)
	if err != nil || len(ids) <= 64 || len(ids) > 4*64 {
		t.Fatalf("%d tokens, %v", len(ids), err)
	}
	said := map[string]string{"/v1/messages": "prompt is too long: %d tokens > 64 maximum"}
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt": %q}`,
		"/v1/chat/completions": `{"messages": [{"role": "user", "content": %q}]}`,
		"/v1/responses":        `{"input": %q}`,
		"/v1/messages":         `{"max_tokens": 4, "messages": [{"role": "user", "content": %q}]}`,
		"/api/generate":        `{"prompt": %q}`,
		"/api/chat":            `{"messages": [{"role": "user", "content": %q}]}`,
		"/v1/embeddings":       `{"input": ["x", %q]}`,
		"/api/embed":           `{"truncate": false, "input": %q}`,
	} {
		if status, text := post(t, h, path, fmt.Sprintf(body, far)); status != 400 || !strings.Contains(text, "tokens or more and the context is 64") {
			t.Errorf("%s, far too long: %d %.300s", path, status, text)
		}
		status, text := post(t, h, path, fmt.Sprintf(body, near))
		if status != 400 || !strings.Contains(text, "tokens and the context is 64") {
			t.Errorf("%s, a little too long: %d %.300s", path, status, text)
		}
		words := cmp.Or(said[path], "maximum context length is 64 tokens")
		if head, _, many := strings.Cut(words, "%d"); many {
			words = head
		}
		if openai := strings.HasPrefix(path, "/v1/"); openai && (!strings.Contains(text, words) || path != "/v1/messages" && !strings.Contains(text, "context_length_exceeded")) {
			t.Errorf("%s, a little too long, is not said in the API's words: %.300s", path, text)
		}
	}
	start := m.Decode(ids[:64])
	_, want := post(t, h, "/api/embeddings", fmt.Sprintf(`{"prompt": %q}`, start))
	for _, text := range []string{far, near} {
		if status, got := post(t, h, "/api/embeddings", fmt.Sprintf(`{"prompt": %q}`, text)); status != 200 || got != want {
			t.Errorf("the embedding of what is cut: %d %.100s, that of its beginning %.100s", status, got, want)
		}
	}
}

// TestTruncation: the oldest messages of a conversation that does not fit are left out where that is asked for, as Ollama does it
// unasked; the system's stays.
func TestTruncation(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 128}, server.Options{})
	turn := `{"role": "user", "content": "Once upon a time there was a fox"}, {"role": "assistant", "content": "Yes"}, `
	talk := func(turns int) string {
		return `"messages": [{"role": "system", "content": "Be kind"}, ` + strings.Repeat(turn, turns) + `{"role": "user", "content": "Go on"}]`
	}
	prompt := func(turns int) int {
		_, text := post(t, h, "/tokenize", "{"+talk(turns)+"}")
		var n struct{ Count int }
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		return n.Count
	}
	fits := 0 // turns that leave the room that is kept for an answer
	for prompt(fits+1)+8 <= 128 {
		fits++
	}
	if fits == 0 || fits > 20 {
		t.Fatalf("%d turns fit", fits)
	}
	want := fmt.Sprintf(`"prompt_tokens":%d,`, prompt(fits))
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/chat/completions", `{"max_tokens": 8, "truncation": "auto", ` + talk(40) + "}", 200, want},
		{"/v1/chat/completions", `{"max_tokens": 8, "truncation": "auto", ` + talk(fits) + "}", 200, want},
		{"/v1/chat/completions", `{"max_tokens": 8, ` + talk(40) + "}", 400, "context_length_exceeded"},
		{"/v1/responses", `{"max_output_tokens": 8, "truncation": "auto", ` + strings.Replace(talk(40), "messages", "input", 1) + "}", 200, fmt.Sprintf(`"input_tokens":%d,`, prompt(fits))},
		{"/api/chat", `{"stream": false, "options": {"num_predict": 8}, ` + talk(40) + "}", 200, fmt.Sprintf(`"prompt_eval_count":%d,`, prompt(fits))},
		{"/api/chat", `{"truncate": false, ` + talk(40) + "}", 400, "tokens"},
		{"/api/chat", `{"options": {"num_ctx": 4096}, ` + talk(0) + "}", 400, "options.num_ctx is 4096"},
		{"/api/chat", `{"options": {"xtc_threshold": 2}, ` + talk(0) + "}", 400, "xtc_threshold is 2"},
		{"/api/chat", `{"options": {"mirostat": 3}, ` + talk(0) + "}", 400, "mirostat is 3"},
		{"/api/chat", `{"options": {"dry_multiplier": -2}, ` + talk(0) + "}", 400, "dry_multiplier is -2"},
		{"/api/chat", `{"stream": false, "options": {"num_ctx": 128, "mirostat": 0, "num_predict": 2, "repeat_last_n": 64}, ` + talk(0) + "}", 200, "done"},
	} {
		if status, text := post(t, h, c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %.100s: %d %.400s, want %d and %s", c.path, c.body, status, text, c.status, c.want)
		}
	}
}

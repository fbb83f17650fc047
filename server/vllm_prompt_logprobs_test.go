package server_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestPromptLogprobs: vLLM's field gives each token of a prompt, but the first, and the likeliest in its place, as those of echo are; of a conversation too.
func TestPromptLogprobs(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	type entry struct {
		Logprob float64
		Rank    *int
		Text    string `json:"decoded_token"`
	}
	type answer struct {
		Choices []struct {
			Scores   []map[string]entry `json:"prompt_logprobs"`
			Logprobs *struct {
				Logprobs []*float64           `json:"token_logprobs"`
				Tops     []map[string]float64 `json:"top_logprobs"`
			}
		}
		Scores []map[string]entry `json:"prompt_logprobs"`
	}
	ask := func(path, body string) (a answer) {
		t.Helper()
		status, text := post(t, h, path, body)
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, text)
		}
		return a
	}
	const prompt = `"prompt": "Once upon a time, there was a fox", "temperature": 0, "max_tokens": 2, `
	echoed := ask("/v1/completions", "{"+prompt+`"echo": true, "logprobs": 1}`).Choices[0].Logprobs
	both := ask("/v1/completions", "{"+prompt+`"logprobs": 1, "prompt_logprobs": 4}`).Choices[0]
	if n := len(both.Scores); n < 5 || n != len(echoed.Logprobs)-2 || both.Scores[0] != nil {
		t.Fatalf("%d tokens of a prompt, echo gives %d: %+v", n, len(echoed.Logprobs), both.Scores)
	}
	for i, all := range both.Scores[1:] {
		own, ranked := 0, 0
		for _, x := range all {
			if x.Logprob == *echoed.Logprobs[i+1] {
				own++
			}
			if x.Rank != nil {
				ranked++
			}
			if math.IsNaN(x.Logprob) || x.Logprob > 0 {
				t.Errorf("token %d: %+v", i+1, x)
			}
		}
		if own == 0 || ranked < 4 || len(all) > 5 {
			t.Errorf("token %d: %+v, and echo has %g", i+1, all, *echoed.Logprobs[i+1])
		}
	}
	if got := both.Logprobs; len(got.Logprobs) != 2 || len(got.Tops[0]) > 2 {
		t.Errorf("of the answer %+v", got)
	}
	if a := ask("/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi there"}], "max_tokens": 1, "prompt_logprobs": 0}`); len(a.Scores) < 3 || len(a.Scores[1]) != 1 {
		t.Errorf("of a conversation %+v", a.Scores)
	}
	for body, want := range map[string]string{`"prompt_logprobs": 21`: "0 to 20", `"prompt_logprobs": -1`: "0 to 20", `"prompt_logprobs": 1, "stream": true`: "not streamed"} {
		if status, text := post(t, h, "/v1/completions", "{"+prompt+body+"}"); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

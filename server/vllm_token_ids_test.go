package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestReturnTokenIDs: the ids of an answer are those that its text decodes from, streamed as well; the prompt's are what /tokenize says; and going on in ids finds prompt and answer cached.
func TestReturnTokenIDs(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	type choice struct {
		Text     string
		Asked    []int32 `json:"prompt_token_ids"`
		IDs      []int32 `json:"token_ids"`
		Finished string  `json:"finish_reason"`
	}
	type answer struct {
		Choices []choice
		Asked   []int32 `json:"prompt_token_ids"`
		Usage   struct {
			Completion int `json:"completion_tokens"`
			Details    struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	ask := func(path, body string) (a answer) {
		t.Helper()
		status, text := post(t, h, path, body)
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, text)
		}
		return a
	}
	decoded := func(ids []int32) string {
		t.Helper()
		data, _ := json.Marshal(map[string]any{"tokens": ids})
		status, text := post(t, h, "/detokenize", string(data))
		var a struct{ Prompt string }
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%d %v: %s", status, err, text)
		}
		return a.Prompt
	}
	streamed := func(path, body string) (a answer) {
		t.Helper()
		_, text := post(t, h, path, body)
		a.Choices = make([]choice, 1)
		for line := range strings.SplitSeq(text, "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			var event answer
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatal(err)
			}
			a.Asked = append(a.Asked, event.Asked...)
			for _, c := range event.Choices {
				a.Choices[0].Asked, a.Choices[0].IDs = append(a.Choices[0].Asked, c.Asked...), append(a.Choices[0].IDs, c.IDs...)
			}
		}
		return a
	}
	const wanted = `"temperature": 0, "return_token_ids": true`
	prompt := `"prompt": "Once upon a time, there was a fox", "max_tokens": 40, ` + wanted
	whole := ask("/v1/completions", "{"+prompt+"}")
	got := whole.Choices[0]
	if len(got.IDs) != 40 || whole.Usage.Completion != 40 || decoded(got.IDs) != got.Text {
		t.Errorf("%d ids of %d tokens: %q is %q", len(got.IDs), whole.Usage.Completion, decoded(got.IDs), got.Text)
	}
	if text := decoded(got.Asked); !strings.HasSuffix(text, "Once upon a time, there was a fox") {
		t.Errorf("the prompt is %q", text)
	}
	if s := streamed("/v1/completions", "{"+prompt+`, "stream": true}`).Choices[0]; !slices.Equal(s.IDs, got.IDs) || !slices.Equal(s.Asked, got.Asked) {
		t.Errorf("streamed %v of %v, in one piece %v of %v", s.IDs, s.Asked, got.IDs, got.Asked)
	}
	data, _ := json.Marshal(slices.Concat(got.Asked, got.IDs))
	if on := ask("/v1/completions", fmt.Sprintf(`{"prompt": %s, "max_tokens": 1}`, data)); on.Usage.Details.Cached < len(got.Asked)+len(got.IDs)-17 || on.Choices[0].IDs != nil {
		t.Errorf("of %d tokens of a prompt and its answer %d were cached; ids that nobody asked for: %v", len(got.Asked)+len(got.IDs), on.Usage.Details.Cached, on.Choices[0].IDs)
	}

	chat := `"messages": [{"role": "user", "content": "What is a page?"}], "max_tokens": 200, ` + wanted
	said := ask("/v1/chat/completions", "{"+chat+"}")
	if c := said.Choices[0]; c.Finished != "stop" || len(c.IDs) != said.Usage.Completion+1 || len(said.Asked) < 5 {
		t.Errorf("of a chat %d ids, %d tokens, finish %s, prompt of %d", len(c.IDs), said.Usage.Completion, c.Finished, len(said.Asked))
	}
	if s := streamed("/v1/chat/completions", "{"+chat+`, "stream": true}`); !slices.Equal(s.Choices[0].IDs, said.Choices[0].IDs) || !slices.Equal(s.Asked, said.Asked) {
		t.Errorf("streamed %v of %v, in one piece %v of %v", s.Choices[0].IDs, s.Asked, said.Choices[0].IDs, said.Asked)
	}
}

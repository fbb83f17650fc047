package server_test

import (
	"encoding/json"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestPromptOnly: a request for no tokens has its prompt computed, so that the next finds it cached, and gets an empty answer, over every API that has a limit.
func TestPromptOnly(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 256}, server.Options{})
	const messages = `"messages": [{"role": "user", "content": "Tell me about the prefix cache of an inference engine, and how long a story it can remember."}]`
	for _, c := range []struct{ path, body string }{
		{"/completion", `{"prompt": "The dragon of the first hill slept for a hundred years and then it woke up", "n_predict": 0}`},
		{"/v1/completions", `{"prompt": "The dragon of the other hill slept for a hundred years and then it woke up", "max_tokens": 0}`},
		{"/v1/chat/completions", `{` + messages + `, "max_tokens": 0}`},
		{"/v1/chat/completions", `{` + messages + `, "max_completion_tokens": 0, "response_format": {"type": "json_object"}}`},
		{"/v1/messages", `{"max_tokens": 0, ` + messages + `}`},
	} {
		status, text := post(t, h, c.path, c.body)
		var a struct {
			Content any
			Usage   struct {
				Output    *int `json:"completion_tokens"`
				Anthropic *int `json:"output_tokens"`
			}
			Predicted *int `json:"tokens_predicted"`
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Errorf("%s: %d, %v: %s", c.path, status, err, text)
			continue
		}
		for _, n := range []*int{a.Usage.Output, a.Usage.Anthropic, a.Predicted} {
			if n != nil && *n != 0 {
				t.Errorf("%s: %d tokens: %s", c.path, *n, text)
			}
		}
		if a.Usage.Output == nil && a.Usage.Anthropic == nil && a.Predicted == nil {
			t.Errorf("%s: no usage: %s", c.path, text)
		}
		status, text = post(t, h, c.path, c.body[:len(c.body)-1]+`, "stream": true}`)
		if status != 200 {
			t.Errorf("%s streamed: %d: %s", c.path, status, text)
		}
	}
	_, text := post(t, h, "/v1/chat/completions", `{`+messages+`, "max_tokens": 1}`)
	var a struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Usage.Details.Cached < 16 {
		t.Errorf("%d tokens were cached, %v: %s", a.Usage.Details.Cached, err, text)
	}
}

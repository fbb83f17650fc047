package server_test

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// TestDiffusion: a masked diffusion model answers completions and chats, whole and streamed, with usage, stop strings and several choices; fields that
// mean nothing, and calls of tools, are refused.
func TestDiffusion(t *testing.T) {
	leaks.Check(t)
	dir := t.TempDir()
	if err := testkit.WriteDiffusion(dir, "../internal/check/testdata/dream"); err != nil {
		t.Fatal(err)
	}
	m, err := ridge.Load(dir, ridge.Options{Threads: 1, Backend: "ref"})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(m, server.Options{})
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.Close(); s.Close(); leaks.Pages(t, m); m.Close() })

	const body = `{"prompt": "once", "max_tokens": 24, "diffusion_block_length": 8, "diffusion_steps": 12, "n": 2, "logprobs": 1`
	status, text := post(t, h, "/v1/completions", body+`}`)
	whole := parse(t, text)
	if status != 200 || len(whole.Choices) != 2 || whole.Choices[0].Text != whole.Choices[1].Text || len(whole.Choices[0].Logprobs.Tokens) != 24 || whole.Usage.Completion != 48 || whole.Usage.Prompt != 4 {
		t.Fatalf("%d: %s", status, text)
	}
	_, text = post(t, h, "/v1/completions", `{"prompt": "once", "max_tokens": 24, "diffusion_block_length": 8, "diffusion_steps": 12, "stream": true, "stream_options": {"include_usage": true}}`)
	streamed, all := "", events(t, text)
	for _, e := range all {
		for _, c := range e.Choices {
			streamed += c.Text
		}
	}
	if streamed != whole.Choices[0].Text || all[len(all)-1].Usage.Completion != 24 {
		t.Errorf("the stream says %q, the whole answer %q", streamed, whole.Choices[0].Text)
	}
	stop := streamed[9:11]
	_, text = post(t, h, "/v1/completions", `{"prompt": "once", "max_tokens": 24, "diffusion_block_length": 8, "diffusion_steps": 12, "stop": `+quotedJSON(stop)+`}`)
	if a := parse(t, text); a.Choices[0].Text != streamed[:strings.Index(streamed, stop)] || a.Choices[0].Finish != "stop" {
		t.Errorf("before %q: %s", stop, text)
	}
	status, text = post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "diffusion_threshold": 0.4, "diffusion_algorithm": "topk_margin"}`)
	if a := parse(t, text); status != 200 || a.Choices[0].Message.Content == "" || a.Usage.Completion != 9 {
		t.Errorf("%d: %s", status, text)
	}
	ask := func(path, body string) string { // without what differs between equal answers
		status, body := post(t, h, path, body)
		if status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
		return regexp.MustCompile(`"timings":\{[^}]*\},?|"(?:id|created|created_at|completed_at|[a-z_]*_duration|message_id)":("[^"]*"|[0-9.]+),?`).ReplaceAllString(body, "")
	}
	const chat = `"messages": [{"role": "user", "content": "hi"`
	for path, body := range map[string]string{
		"/v1/completions": `{"prompt": "once", "max_tokens": 8}`, "/v1/responses": `{"input": "once", "max_output_tokens": 8}`, "/completion": `{"prompt": "once", "n_predict": 8}`,
		"/api/generate":        `{"prompt": "once", "stream": false, "options": {"num_predict": 8}}`,
		"/v1/chat/completions": `{"max_tokens": 8, ` + chat + `}]}`, "/v1/messages": `{"max_tokens": 8, ` + chat + `}]}`,
	} {
		at := strings.LastIndex(body, "}")
		if strings.Contains(body, "options\": {") {
			at = strings.LastIndex(body, "}}")
		}
		with := func(fields string) string { return body[:at] + fields + body[at:] }
		plain := ask(path, with(""))
		if again := ask(path, with("")); again != plain {
			t.Errorf("%s: twice the same gives %s and %s", path, plain, again)
		}
		for _, fields := range []string{`, "diffusion_cfg_scale": 3`, `, "diffusion_block_length": 2`, `, "diffusion_steps": 1`} {
			if ask(path, with(fields)) == plain {
				t.Errorf("%s: %s changes nothing of %s", path, fields, plain)
			}
		}
	}
	for want, fields := range map[string]string{
		"threshold is 2; 0":           `"diffusion_threshold": 2`,
		"steps are -1; 0":             `"diffusion_steps": -1`,
		"a step has logits for":       `"diffusion_block_length": 1000`,
		"algorithm is":                `"diffusion_algorithm": "best"`,
		"(alg_temp) is -1; 0":         `"diffusion_alg_temp": -1`,
		"(cfg_scale) is -1; 0":        `"diffusion_cfg_scale": -1`,
		"which no grammar can follow": `"response_format": {"type": "json_object"}`,
	} {
		status, text := post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, `+fields+`}`)
		if status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s; %q wanted", fields, status, text, want)
		}
	}
	plain, _ := start(t, ridge.Options{}, server.Options{})
	if status, text := post(t, plain, "/v1/completions", `{"prompt": "once", "max_tokens": 2, "diffusion_steps": 4}`); status != 400 || !strings.Contains(text, "writes from left to right") {
		t.Errorf("diffusion of a model from left to right: %d %s", status, text)
	}
}

// quotedJSON is a text as JSON has it.
func quotedJSON(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

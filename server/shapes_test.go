package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// request sends a request and gives the status, the header and the body.
func request(t *testing.T, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host") // "": that of the address
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(data)
}

// TestMethods: a path with another method is 405 and says which it has, in its API's shape; OPTIONS tells that without an
// error; what is not here is 404.
func TestMethods(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for _, c := range []struct {
		method, path string
		status       int
		allow, want  string
	}{
		{"GET", "/v1/chat/completions", 405, "POST, OPTIONS", `{"error":{"message":"there is no GET /v1/chat/completions here; use POST"`},
		{"PUT", "/v1/models", 405, "GET, HEAD, OPTIONS", `"code":"method_not_allowed"`},
		{"GET", "/v1/messages", 405, "POST, OPTIONS", `"type":"error"`},
		{"DELETE", "/api/chat", 405, "POST, OPTIONS", `{"error":"there is no DELETE /api/chat here; use POST"}`},
		{"OPTIONS", "/v1/files/x", 204, "GET, HEAD, DELETE, OPTIONS", ""},
		{"HEAD", "/", 200, "", ""},
		{"HEAD", "/v1/models", 200, "", ""},
		{"GET", "/v1/nothing", 404, "", `"param":null,"code":"not_found"`},
		{"OPTIONS", "/v1/nothing", 404, "", `there is no OPTIONS /v1/nothing here`},
	} {
		status, header, body := request(t, c.method, h.URL+c.path, "")
		if status != c.status || header.Get("Allow") != c.allow || !strings.Contains(body, c.want) || header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, status, header.Get("Allow"), body)
		}
	}
}

// TestPreflight: pages of an allowed origin may send what headers their client library sends, and read the request's id.
func TestPreflight(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{Keys: []access.Key{access.NewKey("k")}, Origins: []string{"https://page.example"}})
	status, header, _ := request(t, "OPTIONS", h.URL+"/v1/messages", "", "Origin", "https://page.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key,x-stainless-lang")
	if status != 204 || header.Get("Access-Control-Allow-Headers") != "x-api-key,x-stainless-lang" || !strings.Contains(header.Get("Access-Control-Allow-Methods"), "DELETE") || !strings.Contains(header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
		t.Errorf("%d %v", status, header)
	}
}

// TestErrorsNameFields: the field at fault is named as the client wrote it, and what is not known of an error is null.
func TestErrorsNameFields(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for body, want := range map[string]string{
		`{"prompt": "x", "temperature": "hot"}`:       `"message":"temperature is a JSON string and should be a number","type":"invalid_request_error","param":"temperature","code":null`,
		`{"prompt": "x", "temperature": -1}`:          `"param":"temperature"`,
		`{"prompt": "x", "guided_regex": 1}`:          `"param":"guided_regex"`,
		`{"prompt": "x", "stop": ""}`:                 `"param":"stop"`,
		`{"prompt": "x", "top_p": 2}`:                 `"param":"top_p"`,
		`{"prompt": "x", "logit_bias": {"5": 200}}`:   `"param":"logit_bias"`,
		`{"prompt": [99999]}`:                         `"message":"token 0 of the prompt is 99999; the vocabulary has 4096","type":"invalid_request_error","param":null`,
		`[]`:                                          `"message":"the body is a JSON array and should be an object","type":"invalid_request_error","param":null`,
		``:                                            `the body is empty`,
		`{"prompt": "x", "stream_options": {"a": 1}}`: `"param":"stream_options"`,
	} {
		if status, text := post(t, h, "/v1/completions", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestUsageInStreams: with include_usage every event but the last says null, with continuous_usage_stats the usage so far.
func TestUsageInStreams(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for path, prompt := range map[string]string{
		"/v1/completions":      `"prompt": ["Once upon a time", "The fox"]`,
		"/v1/chat/completions": `"messages": [{"role": "user", "content": "Tell me a story about a fox named Pip"}], "n": 2`,
	} {
		body := "{" + prompt + `, "temperature": 0, "max_tokens": 4, "stream": true, "stream_options": {"include_usage": true`
		_, text := post(t, h, path, body+`}}`)
		if all := events(t, text); strings.Count(text, `"usage":null`) != len(all)-1 {
			t.Errorf("%s: %d events, and not all but one say \"usage\":null: %s", path, len(all), text)
		}
		_, text = post(t, h, path, body+`, "continuous_usage_stats": true}}`)
		all := events(t, text)
		before := 0
		for _, e := range all {
			if e.Usage == nil || e.Usage.Completion < before || e.Usage.Prompt != all[len(all)-1].Usage.Prompt {
				t.Fatalf("%s: usage %+v after %d tokens", path, e.Usage, before)
			}
			before = e.Usage.Completion
		}
		if before != 8 || all[len(all)-2].Usage.Completion != 8 {
			t.Errorf("%s: the usage ends with %d tokens", path, before)
		}
	}
}

// TestLogprobShapes: the shapes that OpenAI's clients rely on: the token itself among the likeliest, offsets in characters,
// lists that are there when they are empty.
func TestLogprobShapes(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	var text struct {
		Choices []struct {
			Text     string
			Logprobs struct {
				Tokens  []string
				Top     []map[string]float64 `json:"top_logprobs"`
				Offsets []int                `json:"text_offset"`
			}
		}
	}
	_, body := post(t, h, "/v1/completions", `{"prompt": "x", "temperature": 0, "logprobs": 0, "guided_regex": "ééa"}`)
	if err := json.Unmarshal([]byte(body), &text); err != nil {
		t.Fatal(err)
	}
	l := text.Choices[0].Logprobs
	if want := []int{0, 1, 1, 2, 2}; text.Choices[0].Text != "ééa" || !slices.Equal(l.Offsets, want) { // each é is two tokens of a byte
		t.Fatalf("the offsets should be %v: %s", want, body)
	}
	for i, token := range l.Tokens {
		if _, has := l.Top[i][token]; !has {
			t.Errorf("token %q is not among %v", token, l.Top[i])
		}
	}
	_, body = post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0, "logprobs": true}`)
	if !strings.Contains(body, `"top_logprobs":[]}],"refusal":null}`) {
		t.Error(body)
	}
	_, body = post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0, "logprobs": true, "top_logprobs": 1}`)
	if strings.Contains(body, `"top_logprobs":[]`) {
		t.Errorf("one of the likeliest has a list of its own: %s", body)
	}
}

// TestSamplingWords: vLLM's top_k -1 is all tokens, and top_p 0 the likeliest alone.
func TestSamplingWords(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	text := func(fields string) string {
		_, body := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "max_tokens": 12, "seed": 7, `+fields+`}`)
		return parse(t, body).Choices[0].Text
	}
	if greedy := text(`"temperature": 0`); text(`"temperature": 2, "top_p": 0`) != greedy {
		t.Error("top_p 0 is not greedy")
	}
	if text(`"temperature": 2, "top_k": -1`) != text(`"temperature": 2, "top_k": 0`) {
		t.Error("top_k -1 is not 0")
	}
}

// TestTokenizeConversation: the tokens of a conversation are those of its prompt.
func TestTokenizeConversation(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const messages = `"messages": [{"role": "user", "content": "Hi there"}]`
	_, text := post(t, h, "/tokenize", `{`+messages+`, "return_token_strs": true}`)
	var got struct {
		Tokens  []int
		Count   int
		Strings []string `json:"token_strs"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	_, text = post(t, h, "/v1/chat/completions/render", `{`+messages+`}`)
	var want struct {
		Prompt string
		IDs    []int `json:"token_ids"`
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if got.Count != len(want.IDs) || len(got.Tokens) != got.Count || strings.Join(got.Strings, "") != want.Prompt {
		t.Errorf("%+v, rendered %+v", got, want)
	}
}

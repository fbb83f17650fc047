package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// start is a server of the built-in model.
func start(t testing.TB, mo ridge.Options, so server.Options) (*httptest.Server, *ridge.Model) {
	t.Helper()
	return startFile(t, "", mo, so)
}

// startFile is a server of the model in a file.
func startFile(t testing.TB, path string, mo ridge.Options, so server.Options) (*httptest.Server, *ridge.Model) {
	t.Helper()
	leaks.Check(t)
	if mo.Threads == 0 {
		mo.Threads = 1 // on a busy machine threads of small models mostly wait for each other
	}
	m, err := ridge.Load(path, mo)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(m, so)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		s.Close()
		leaks.Pages(t, m)
		m.Close()
	})
	return h, m
}

// answer is what the tests look at of any answer or event.
type answer struct {
	Object  string
	Choices []struct {
		Index          int
		Text           string
		Message, Delta struct{ Role, Content string }
		Finish         string `json:"finish_reason"`
		Logprobs       *struct {
			Content []struct {
				Token string
				Top   []json.RawMessage `json:"top_logprobs"`
			}
			Tokens   []string
			Logprobs []float64 `json:"token_logprobs"`
		}
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct{ Message, Type, Param, Code string }
}

func parse(t testing.TB, text string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

// events are the events of a stream, without the [DONE] that must end it.
func events(t testing.TB, text string) []answer {
	t.Helper()
	var all []answer
	done := false
	for line := range strings.SplitSeq(text, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			all = append(all, parse(t, data))
		}
	}
	if !done {
		t.Errorf("the stream does not end with [DONE]: %s", text)
	}
	return all
}

func TestCompletion(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 12, "logprobs": 2`
	status, text := post(t, h, "/v1/completions", body+`}`)
	a := parse(t, text)
	if status != 200 || !strings.HasPrefix(a.Choices[0].Text, " there was a small") || a.Choices[0].Finish != "length" || len(a.Choices[0].Logprobs.Tokens) != 12 {
		t.Fatalf("%d: %s", status, text)
	}
	if u := a.Usage; u.Prompt != 4 || u.Completion != 12 {
		t.Errorf("usage %+v", *u)
	}
	_, text = post(t, h, "/v1/completions", body+`, "stream": true, "stream_options": {"include_usage": true}}`)
	all := events(t, text)
	var streamed string
	var tokens []string
	for _, e := range all {
		for _, c := range e.Choices {
			streamed += c.Text
			if c.Logprobs != nil {
				tokens = append(tokens, c.Logprobs.Tokens...)
			}
		}
	}
	if streamed != a.Choices[0].Text || !slices.Equal(tokens, a.Choices[0].Logprobs.Tokens) || all[len(all)-1].Usage.Completion != 12 {
		t.Errorf("the stream says %q, the whole answer %q", streamed, a.Choices[0].Text)
	}
}

func TestChat(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"messages": [{"role": "user", "content": "Tell me a story about a fox named Pip"}], "temperature": 0, "max_completion_tokens": 20, "logprobs": true, "top_logprobs": 3`
	status, text := post(t, h, "/v1/chat/completions", body+`}`)
	a := parse(t, text)
	if status != 200 || a.Choices[0].Message.Role != "assistant" || a.Choices[0].Message.Content == "" || len(a.Choices[0].Logprobs.Content) != 20 || len(a.Choices[0].Logprobs.Content[0].Top) != 3 {
		t.Fatalf("%d: %s", status, text)
	}
	_, text = post(t, h, "/v1/chat/completions", body+`, "stream": true, "stream_options": {"include_usage": true}}`)
	var streamed string
	logprobs := 0
	all := events(t, text)
	for _, e := range all {
		for _, c := range e.Choices {
			streamed += c.Delta.Content
			if c.Logprobs != nil {
				logprobs += len(c.Logprobs.Content)
			}
		}
	}
	last := all[len(all)-1]
	if streamed != a.Choices[0].Message.Content || logprobs != 20 || all[0].Choices[0].Delta.Role != "assistant" || all[len(all)-2].Choices[0].Finish != "length" || last.Usage == nil {
		t.Errorf("the stream says %q with %d log-probabilities, the whole answer %q", streamed, logprobs, a.Choices[0].Message.Content)
	}
	if last.Usage.Details.Cached == 0 {
		t.Error("nothing of the same prompt was cached")
	}
}

// TestEventsAreTokens: a stream has an event for every token, also for those whose text may yet become a stop string.
func TestEventsAreTokens(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	for path, prompt := range map[string]string{
		"/v1/completions":      `"prompt": "Once upon a time"`,
		"/v1/chat/completions": `"messages": [{"role": "user", "content": "Tell me a story about a fox named Pip"}]`,
	} {
		_, text := post(t, h, path, `{`+prompt+`, "temperature": 0, "max_tokens": 12, "stop": [" there was a mall", " as of"], "stream": true}`)
		tokens, held := 0, 0
		for _, e := range events(t, text) {
			if c := e.Choices[0]; c.Finish == "" && c.Delta.Role == "" {
				tokens++
				if c.Text+c.Delta.Content == "" {
					held++
				}
			}
		}
		if tokens != 12 || held == 0 {
			t.Errorf("%s: %d events of 12 tokens, %d without text; some must have none: %s", path, tokens, held, text)
		}
	}
}

// TestChoices: n answers share the prompt, differ by seed, and the first is what n = 1 gives.
func TestChoices(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"prompt": ["The cat", "The dog"], "temperature": 1.5, "seed": 3, "max_tokens": 12, "ignore_eos": true, "n": `
	_, text := post(t, h, "/v1/completions", body+`2}`)
	two := parse(t, text)
	_, text = post(t, h, "/v1/completions", body+`1}`)
	one := parse(t, text)
	if len(two.Choices) != 4 || two.Choices[0].Text != one.Choices[0].Text || two.Choices[2].Text != one.Choices[1].Text || two.Choices[0].Text == two.Choices[1].Text {
		t.Errorf("two of each %+v, one of each %+v", two.Choices, one.Choices)
	}
	if two.Usage.Prompt != one.Usage.Prompt || two.Usage.Completion != 2*one.Usage.Completion {
		t.Errorf("usage %+v and %+v", *two.Usage, *one.Usage)
	}
}

func TestRefusals(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 64}, server.Options{})
	const chat, text = "/v1/chat/completions", "/v1/completions"
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{text, `{"prompt": `, 400, "not valid JSON"},
		{text, "{\"prompt\": \"\xff\"}", 400, "UTF-8"},
		{text, `{}`, 400, "prompt is missing"},
		{text, `{"prompt": {"a": 1}}`, 400, "prompt should be"},
		{text, `{"prompt": "x", "temperature": "hot"}`, 400, "temperature is a JSON string and should be a number"},
		{text, `{"prompt": "x", "temperature": -1}`, 400, "temperature is -1; it"},
		{text, `{"prompt": "x", "max_tokens": -1}`, 400, "max_tokens is -1"},
		{text, `{"prompt": "x", "max_tokens": 1e30}`, 400, "max_tokens"},
		{text, `{"prompt": "x", "n": 1000000}`, 400, "n is 1000000"},
		{text, `{"prompt": "x", "stop": 7}`, 400, "stop should be"},
		{text, `{"prompt": "x", "stop": [""]}`, 400, "stop string 0 is empty"},
		{text, `{"prompt": "x", "logit_bias": {"cat": 1}}`, 400, "logit_bias has the key"},
		{text, `{"prompt": "x", "logit_bias": {"5": 1, "05": 2}}`, 400, `logit_bias has token 5 twice, the second time as "05"`},
		{text, `{"prompt": "x", "logit_bias": {"5": 1, "5": 2}}`, 400, "logit_bias has token 5 twice"},
		{text, `{"prompt": "x", "logit_bias": {"5": "hot"}}`, 400, "logit_bias is a JSON string and should be a number"},
		{text, `{"prompt": "x", "model": "gpt-5"}`, 404, "no model"},
		{text, `{"prompt": "` + strings.Repeat("word ", 100) + `"}`, 400, "the context is 64"},
		{text, `{"prompt": [99999]}`, 400, "99999"},
		{chat, `{}`, 400, "messages is missing"},
		{chat, `{"messages": [{"role": "king", "content": "x"}]}`, 400, "role"},
		{chat, `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400, "image_url"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 5}`, 400, "logprobs is off"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}`, 400, "tool_choice"},
		{"/detokenize", `{"tokens": [-1]}`, 400, "token 0 is -1"},
		{"/v1/nothing", `{}`, 404, "there is no POST /v1/nothing"},
	} {
		status, body := post(t, h, c.path, c.body)
		if a := parse(t, body); status != c.status || a.Error == nil || !strings.Contains(a.Error.Message, c.want) {
			t.Errorf("%s %.80s: %d %s; it should be %d and say %q", c.path, c.body, status, body, c.status, c.want)
		}
	}
	status, body := post(t, h, text, `{"prompt": "`+strings.Repeat("x", 17<<20)+`"}`)
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("17 MiB: %d %.100s", status, body)
	}
}

// TestKeyAndHeaders: requests without a key get 401, except for /health; the request's id comes back.
func TestKeyAndHeaders(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{Keys: []access.Key{access.NewKey("one"), access.NewKey("two")}, Origins: []string{"https://page.example"}})
	for key, want := range map[string]int{"": 401, "three": 401, "two": 200} {
		r, _ := http.NewRequest("GET", h.URL+"/v1/models", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("X-Request-Id", "abc")
		r.Header.Set("Origin", "https://page.example")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want || a.Header.Get("X-Request-Id") != "abc" || a.Header.Get("Access-Control-Allow-Origin") != "https://page.example" {
			t.Errorf("key %q: %d %v", key, a.StatusCode, a.Header)
		}
	}
	r, err := http.Get(h.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != 200 {
		t.Errorf("/health: %v", r)
	}
	for address, ok := range map[string]bool{"127.0.0.1:80": true, "localhost:80": true, "[::1]:80": true, "0.0.0.0:80": false, ":80": false, "x": false} {
		if err := server.CheckAddress(address, 0); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := server.CheckAddress("0.0.0.0:80", 1); err != nil {
		t.Error(err)
	}
}

// TestDisconnect: when a client goes away in the middle of a stream, its request ends and its pages come back.
func TestDisconnect(t *testing.T) {
	hold := newBrake(20)
	defer hold.release()
	h, m := start(t, ridge.Options{}, server.Options{})
	m.OnStep(hold.step)
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": "Once", "max_tokens": 2000, "ignore_eos": true, "stream": true, "n": 3}`))
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if line, err := bufio.NewReader(a.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("%q %v", line, err)
	}
	if m.Stats().Running == 0 {
		t.Fatal("nothing runs")
	}
	cancel()
	hold.release()
	for end := time.Now().Add(time.Minute); m.Stats().Running > 0 || m.Stats().PagesUsed > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still %+v", m.Stats())
		}
	}
}

// TestBusy: a full queue is refused with 429 and when to come back, a deadline that has passed with 504.
func TestBusy(t *testing.T) {
	hold := newBrake(5)
	defer hold.release()
	h, m := start(t, ridge.Options{Parallel: 1, MaxWaiting: 1}, server.Options{})
	m.OnStep(hold.step)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 2 {
		r, _ := http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": "Once", "max_tokens": 2000, "ignore_eos": true, "stream": true}`))
		go func() {
			if a, err := http.DefaultClient.Do(r); err == nil {
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
			}
		}()
		for end := time.Now().Add(time.Minute); m.Stats().Running+m.Stats().Waiting < i+1 || m.Stats().Running == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it did not begin: %+v", m.Stats())
			}
		}
	}
	r, err := http.Post(h.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("a full queue gives %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
	}
	for timeout, want := range map[string]int{"1ns": 504, "never": 400} {
		q, _ := http.NewRequest("POST", h.URL+"/v1/chat/completions", strings.NewReader(`{"messages": [{"role": "user", "content": "x"}]}`))
		q.Header.Set("X-Request-Timeout", timeout)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if r.Body.Close(); r.StatusCode != want {
			t.Errorf("timeout %s: %v %v", timeout, r, err)
		}
	}
}

func TestSmallEndpoints(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{Version: "v9"})
	post(t, h, "/v1/completions", `{"prompt": "Once", "max_tokens": 3}`)
	for m.Stats().Running > 0 { // the last step ends after its answers
		time.Sleep(time.Millisecond)
	}
	if _, text := post(t, h, "/tokenize", `{"prompt": "Once upon a time"}`); !strings.Contains(text, `"count":4`) {
		t.Error(text)
	} else {
		var ids struct{ Tokens json.RawMessage }
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			t.Fatal(err)
		}
		if _, back := post(t, h, "/detokenize", `{"tokens": `+string(ids.Tokens)+`}`); !strings.Contains(back, `"Once upon a time"`) {
			t.Error(back)
		}
	}
	if _, text := post(t, h, "/v1/chat/completions/render", `{"messages": [{"role": "user", "content": "Hi there"}]}`); !strings.Contains(text, "Hi there") || !strings.Contains(text, "token_ids") {
		t.Error(text)
	}
	for path, want := range map[string][]string{
		"/version": {`"v9"`}, "/v1/models": {`"demo"`, `"object":"model"`}, "/v1/models/demo": {`"demo"`},
		"/metrics": {`vllm:num_requests_running{engine="0",model_name="demo"} 0`, `vllm:generation_tokens_total{engine="0",model_name="demo"} 3`,
			`vllm:request_prompt_tokens_sum{engine="0",model_name="demo"} `, `vllm:request_generation_tokens_sum{engine="0",model_name="demo"} 3`, `vllm:request_queue_time_seconds_count{engine="0",model_name="demo"} 1`,
			`vllm:request_inference_time_seconds_count{engine="0",model_name="demo"} 1`, `vllm:time_per_output_token_seconds_count{engine="0",model_name="demo"} 1`, `vllm:request_params_n_sum{engine="0",model_name="demo"} 1`, `vllm:request_params_max_tokens_sum{engine="0",model_name="demo"} 3`,
			`vllm:time_to_first_token_seconds_count{engine="0",model_name="demo"} 1`, `vllm:inter_token_latency_seconds_count{engine="0",model_name="demo"} 2`,
			`vllm:prefix_cache_queries_total`, `vllm:kv_cache_usage_perc`, `vllm:cache_config_info{block_size="16"`, `vllm:num_preemptions_total`},
	} {
		r, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(r.Body)
		r.Body.Close()
		for _, w := range want {
			if !strings.Contains(string(data), w) {
				t.Errorf("%s lacks %s:\n%s", path, w, data)
			}
		}
	}
}

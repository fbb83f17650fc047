package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestHopelessDeadline: a deadline that would pass before the first token is refused at once, with the numbers.
func TestHopelessDeadline(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	ids := strings.TrimSuffix(strings.Repeat("100,", 1900), ",")
	post(t, h, "/v1/completions", `{"prompt": "Once", "max_tokens": 20}`) // so that the speed is known
	r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": [`+ids+`], "max_tokens": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Request-Timeout", "30ms")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(string(data), "deadline_unreachable") || !strings.Contains(string(data), "allow more time") {
		t.Errorf("%d %v %s", a.StatusCode, err, data)
	}
}

// TestAbsurd: numbers that no answer can have are refused, or mean as much as there is.
func TestAbsurd(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 64}, server.Options{})
	status, text := post(t, h, "/v1/completions", `{"prompt": "Once", "temperature": 0, "ignore_eos": true, "max_tokens": 9223372036854775807}`)
	if a := parse(t, text); status != 200 || a.Usage.Completion != 63 || a.Choices[0].Finish != "length" {
		t.Errorf("%d %s", status, text)
	}
	for _, fields := range []string{`"n": 9223372036854775807`, `"n": -1`, `"max_tokens": 1e400`, `"temperature": 1e999`, `"top_k": -2`, `"top_p": 7`, `"seed": 1.5`, `"presence_penalty": -1e308`, `"temperature": NaN`,
		`"repetition_penalty": 1e-300`, `"repetition_penalty": 1e300`, `"repetition_penalty": 0`,
		`"stop": [` + strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",") + `]`, `"logit_bias": {"1": 1e9}`, `"logprobs": 1000000`, `"prompt": ` + strings.Repeat("[", 100000)} {
		if status, text := post(t, h, "/v1/completions", `{"prompt": "Once", `+fields+`}`); status != 400 {
			t.Errorf("%.60s: %d %.200s", fields, status, text)
		}
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, fields := range []string{`"chat_template_kwargs": {"x": ` + deep + `}`, `"tools": [` + deep + `]`, `"documents": [` + deep + `]`} {
		if status, text := post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], `+fields+`}`); status != 400 {
			t.Errorf("%.60s: %d %.200s", fields, status, text)
		}
	}
}

// TestIdleConnections: beside ten thousand idle connections, or as many as a process may have, requests are answered.
func TestIdleConnections(t *testing.T) {
	want := min(10000, openFiles()-500)
	if want < 10000 {
		t.Logf("a process may have %d files open: %d connections in place of 10000", openFiles(), want)
	}
	c, _ := spawn(t, t.TempDir())
	address := strings.TrimPrefix(c.url, "http://")
	idle := make([]net.Conn, want)
	defer func() {
		for _, x := range idle {
			if x != nil {
				x.Close()
			}
		}
	}()
	for i := range idle {
		x, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		idle[i] = x
		if i%2 == 0 { // half of them have begun to ask
			fmt.Fprint(x, "GET /health HTTP/1.1\r\nHost: x\r\n")
		}
	}
	began := time.Now()
	var text string
	if status := c.call("POST", "/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once", "max_tokens": 20, "ignore_eos": true}`), &text); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	t.Logf("an answer of 20 tokens among %d idle connections took %v", want, time.Since(began))
}

package server_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestBeamSearch: vLLM's fields of beam search on both endpoints: as many answers as n, the best first by their mean log-probability, none worse than what greedy sampling finds; and what does not go with it.
func TestBeamSearch(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const story = `"prompt": "Once upon a time", "max_tokens": 12, "logprobs": 1`
	mean := func(a *echoed, i int) float64 {
		sum := 0.0
		for _, x := range a.Choices[i].Logprobs.Logprobs {
			sum += *x
		}
		return sum
	}
	greedy := complete(t, h, `{`+story+`, "temperature": 0, "ignore_eos": true}`)
	a := complete(t, h, `{`+story+`, "use_beam_search": true, "n": 3, "beam_width": 4, "length_penalty": 0, "early_stopping": "never", "ignore_eos": true}`)
	if len(a.Choices) != 3 || a.Usage.Completion != 36 {
		t.Fatalf("%+v", a)
	}
	for i := range a.Choices {
		if c := a.Choices[i]; c.Index != i || c.Finish != "length" || len(c.Logprobs.Tokens) != 12 || strings.Join(c.Logprobs.Tokens, "") != c.Text {
			t.Errorf("choice %d is %+v", i, c)
		}
		if i > 0 && mean(&a, i) > mean(&a, i-1) {
			t.Errorf("choice %d is likelier than the one before", i)
		}
	}
	if best, one := mean(&a, 0), mean(&greedy, 0); best < one-1e-4 || math.IsNaN(best) {
		t.Errorf("the best of a search is %g, and greedy sampling finds %g", best, one)
	}
	if one := complete(t, h, `{`+story+`, "use_beam_search": true, "ignore_eos": true}`); one.Choices[0].Text != greedy.Choices[0].Text {
		t.Errorf("a beam search of width 1 finds %q, greedy sampling %q", one.Choices[0].Text, greedy.Choices[0].Text)
	}

	chat := `"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 8`
	status, text := post(t, h, "/v1/chat/completions", `{`+chat+`, "use_beam_search": true, "n": 2}`)
	var said struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil || status != 200 || len(said.Choices) != 2 || said.Choices[0].Message.Content == "" || slices.Contains([]string{said.Choices[1].Message.Content}, said.Choices[0].Message.Content) {
		t.Errorf("%d %s", status, text)
	}
	for fields, want := range map[string]string{
		`"use_beam_search": true, "stream": true`:                             "known when it has ended",
		`"use_beam_search": true, "beam_width": 11`:                           "beam_width is 11",
		`"use_beam_search": true, "n": 3, "beam_width": 2`:                    "beam_width is 2 and n is 3",
		`"use_beam_search": true, "stop": "x"`:                                "does not go with stop",
		`"use_beam_search": true, "response_format": {"type": "json_object"}`: "does not go with a format",
		`"use_beam_search": true, "presence_penalty": 1`:                      "does not go with penalties",
		`"use_beam_search": true, "early_stopping": "soon"`:                   "early_stopping should be",
		`"beam_width": 2`:        "beam_width is for beam search",
		`"length_penalty": 2`:    "length_penalty is for beam search",
		`"early_stopping": true`: "early_stopping is for beam search",
	} {
		if status, body := post(t, h, "/v1/chat/completions", `{`+chat+`, `+fields+`}`); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", fields, status, body)
		}
	}
}

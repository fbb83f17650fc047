package anthropic

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// TestToolCalls: what a model writes in its style becomes reasoning, content and calls, whole and in both APIs' streams.
func TestToolCalls(t *testing.T) {
	style := chat.Style{Tools: chat.Hermes, ThinkOpen: "<think>", ThinkClose: "</think>"}
	o := chat.OutputOptions{Style: style, Tools: []string{"add"}}
	pieces := []string{"<think>sum", "s</think>", "Let me see.<tool_", `call>{"name": "add", "argum`, `ents": {"a": 1}}</tool_call>`,
		`<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>`}
	feed := func(a *openai.ChatAnswer, each func(openai.Delta)) {
		j := &serving.Job{First: true}
		for _, text := range pieces {
			for _, d := range a.Take(j, ridge.Piece{Text: text}) {
				each(d)
			}
		}
		for _, d := range a.Take(j, ridge.Piece{Finish: &ridge.Finish{Reason: ridge.FinishStop}}) {
			each(d)
		}
	}
	fresh := func() *openai.ChatAnswer {
		return openai.NewChatAnswer(&serving.Service{}, &openai.ChatRequest{}, "x", o, make([]serving.Job, 1))
	}

	a := fresh()
	var arguments [2]string
	feed(a, func(d openai.Delta) {
		for _, c := range d.ToolCalls {
			arguments[*c.Index] += c.Function.Arguments
		}
	})
	c := &a.Choices[0]
	if c.Reasoning.String() != "sums" || c.Content.String() != "Let me see." || c.Finish != "tool_calls" || len(c.Calls) != 2 || arguments != [2]string{`{"a": 1}`, `{"a": 2}`} {
		t.Errorf("%+v, streamed %v", c, arguments)
	}
	if c.Calls[0].Function.Arguments != arguments[0] || c.Calls[0].ID == c.Calls[1].ID {
		t.Errorf("calls %+v", c.Calls)
	}

	m := &messagesAnswer{ChatAnswer: fresh()}
	w := httptest.NewRecorder()
	out := api.NewStream(w)
	feed(m.ChatAnswer, func(d openai.Delta) {
		if err := m.sendDelta(out, d); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{`"thinking":"s`, `"type":"text_delta"`, `"partial_json":"{\"a\": 1}"`, `"index":3`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the stream lacks %s:\n%s", want, w.Body)
		}
	}
	data, err := json.Marshal(m.whole())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"stop_reason":"tool_use"`, `"input":{"a":2}`, `"thinking":"sums"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the answer lacks %s: %s", want, data)
		}
	}
}

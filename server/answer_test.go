package server

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/engine/sample"
)

// TestToolCalls: what a model writes in its style becomes reasoning, content and calls, whole and in both APIs' streams.
func TestToolCalls(t *testing.T) {
	style := chat.Style{Tools: chat.Hermes, ThinkOpen: "<think>", ThinkClose: "</think>"}
	o := chat.OutputOptions{Style: style, Tools: []string{"add"}}
	pieces := []string{"<think>sum", "s</think>", "Let me see.<tool_", `call>{"name": "add", "argum`, `ents": {"a": 1}}</tool_call>`,
		`<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>`}
	feed := func(a *chatAnswer, each func(delta)) {
		j := &job{first: true}
		for _, text := range pieces {
			for _, d := range a.take(j, ridge.Piece{Text: text}) {
				each(d)
			}
		}
		for _, d := range a.take(j, ridge.Piece{Finish: &ridge.Finish{Reason: sample.ReasonStop}}) {
			each(d)
		}
	}
	fresh := func() *chatAnswer { return newChatAnswer(&Server{}, &chatRequest{}, "x", o, make([]job, 1)) }

	a := fresh()
	var arguments [2]string
	feed(a, func(d delta) {
		for _, c := range d.ToolCalls {
			arguments[*c.Index] += c.Function.Arguments
		}
	})
	c := &a.choices[0]
	if c.reasoning.String() != "sums" || c.content.String() != "Let me see." || c.finish != "tool_calls" || len(c.calls) != 2 || arguments != [2]string{`{"a": 1}`, `{"a": 2}`} {
		t.Errorf("%+v, streamed %v", c, arguments)
	}
	if c.calls[0].Function.Arguments != arguments[0] || c.calls[0].ID == c.calls[1].ID {
		t.Errorf("calls %+v", c.calls)
	}

	m := &messagesAnswer{chatAnswer: fresh()}
	w := httptest.NewRecorder()
	out := newStream(w)
	feed(m.chatAnswer, func(d delta) {
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

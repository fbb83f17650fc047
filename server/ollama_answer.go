package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ridge-llm/ridge"
)

// ollamaAnswer is a chat answer told in Ollama's words: a JSON object a line.
type ollamaAnswer struct {
	*chatAnswer
	generate bool // the text is called response, not message
	out      *stream
	began    time.Time
}

// body is an object with a piece of the answer, or the whole.
func (a *ollamaAnswer) body(text, thinking string, calls []ollamaCall) map[string]any {
	b := map[string]any{"model": a.server.options.Name, "created_at": time.Now().UTC(), "done": false}
	if !a.generate {
		b["message"] = ollamaMessage{Role: "assistant", Content: text, Thinking: thinking, ToolCalls: calls}
		return b
	}
	b["response"] = text
	if thinking != "" {
		b["thinking"] = thinking
	}
	return b
}

// last is the object that ends the answer: with its calls, and all of its text unless that has been streamed.
func (a *ollamaAnswer) last(streamed bool, f *ridge.Finish) map[string]any {
	c := &a.choices[0]
	var calls []ollamaCall
	for _, call := range c.calls {
		var x ollamaCall
		x.Function.Name, x.Function.Arguments = call.Function.Name, json.RawMessage(call.Function.Arguments)
		if !json.Valid(x.Function.Arguments) {
			x.Function.Arguments = quoted(call.Function.Arguments) // as the model wrote it
		}
		calls = append(calls, x)
	}
	text, thinking := c.content.String(), c.reasoning.String()
	if streamed {
		text, thinking = "", ""
	}
	b := a.body(text, thinking, calls)
	b["done"], b["done_reason"] = true, string(f.Reason)
	b["total_duration"], b["prompt_eval_duration"], b["eval_duration"] = time.Since(a.began), f.Prefill, f.Decode
	b["prompt_eval_count"], b["eval_count"] = f.Prompt, f.Output
	return b
}

// line writes an object as a line of its own.
func (s *stream) line(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.begin("application/x-ndjson")
	return s.raw(append(data, '\n'))
}

// fail ends the answer with an error: as an answer of its own if nothing has been sent.
func (a *ollamaAnswer) fail(s *Server, r *http.Request, err error) {
	if !a.out.begun {
		s.fail(a.out.w, r, err)
		return
	}
	_ = a.out.line(shape(r.URL.Path, s.told(a.out.w, r, err))) // the client may have gone
}

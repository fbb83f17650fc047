package ollama

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// answer is a chat answer in Ollama's form: a JSON object a line. Clients count tokens and time by the last
// one, so that a token whose text is held back needs no line of its own.
type answer struct {
	*openai.ChatAnswer
	generate bool // the text is called response, not message
	streamed bool
	out      *api.Stream
	began    time.Time
	finish   *ridge.Finish
	looked   int        // at so many of the answer's calls
	calls    []toolCall // of them that are whole
	sent     int        // of those

	keeps bool    // the last object says the tokens, for a request that goes on from them (context)
	ids   []int32 // of the prompt and the answer
}

// body is an object with a piece of the answer, or the whole.
func (a *answer) body(m message) map[string]any {
	b := map[string]any{"model": a.Request.Answered(a.Service), "created_at": time.Now().UTC(), "done": false}
	if !a.generate {
		b["message"] = m
		return b
	}
	b["response"] = m.Content
	if m.Thinking != "" {
		b["thinking"] = m.Thinking
	}
	return b
}

// piece takes a piece of the answer, and sends it if the answer is streamed.
func (a *answer) piece(j *serving.Job, p ridge.Piece) error {
	deltas := a.Take(j, p)
	a.keep(j, p)
	a.finish = p.Finish
	a.gather(p.Finish != nil)
	if !a.streamed {
		return nil
	}
	for _, d := range deltas {
		if d.Content == "" && d.ReasoningContent == "" {
			continue
		}
		if err := a.send(message{Role: "assistant", Content: d.Content, Thinking: d.ReasoningContent}); err != nil {
			return err
		}
	}
	if a.sent < len(a.calls) {
		fresh := a.calls[a.sent:]
		a.sent = len(a.calls)
		if err := a.send(message{Role: "assistant", ToolCalls: fresh}); err != nil {
			return err
		}
	}
	if p.Finish == nil {
		return nil
	}
	return a.out.Line(a.last())
}

// keep notes the tokens of a piece, and the one that ended the answer.
func (a *answer) keep(j *serving.Job, p ridge.Piece) {
	if !a.keeps {
		return
	}
	if a.ids == nil {
		a.ids = slices.Clone(j.Prompt)
	}
	if p.Token != nil {
		a.ids = append(a.ids, p.Token.Token)
	}
	if p.Finish != nil && p.Finish.End != nil {
		a.ids = append(a.ids, p.Finish.End.Token)
	}
}

// send sends a piece of the message, with the log-probabilities of the tokens since the one before.
func (a *answer) send(m message) error {
	b := a.body(m)
	a.withLogprobs(b)
	return a.out.Line(b)
}

// withLogprobs moves the log-probabilities that have not been sent into an object.
func (a *answer) withLogprobs(b map[string]any) {
	if c := &a.Choices[0]; len(c.Logprobs) > 0 {
		b["logprobs"], c.Logprobs = c.Logprobs, nil
	}
}

// gather notes the calls that are whole: those before the last, at the end all. One that was cut off, or whose arguments
// are not an object, cannot be written in this API.
func (a *answer) gather(end bool) {
	calls := a.Choices[0].Calls
	if !end && len(calls) > 0 {
		calls = calls[:len(calls)-1]
	}
	for _, call := range calls[min(a.looked, len(calls)):] {
		a.looked++
		arguments := strings.TrimSpace(call.Function.Arguments)
		if !strings.HasPrefix(arguments, "{") || !json.Valid([]byte(arguments)) {
			continue
		}
		x := toolCall{ID: call.ID}
		x.Function.Index, x.Function.Name, x.Function.Arguments = a.looked-1, call.Function.Name, json.RawMessage(arguments)
		a.calls = append(a.calls, x)
	}
}

// last is the object that ends the answer: with all of it, unless that has been streamed.
func (a *answer) last() map[string]any {
	c, f := &a.Choices[0], a.finish
	m := message{Role: "assistant"}
	if !a.streamed {
		m.Content, m.Thinking, m.ToolCalls = c.Content.String(), c.Reasoning.String(), a.calls
	}
	b := a.body(m)
	a.withLogprobs(b)
	b["done"], b["done_reason"] = true, string(f.Reason)
	if a.keeps {
		b["context"] = a.ids
	}
	b["total_duration"], b["load_duration"], b["prompt_eval_duration"], b["eval_duration"] = time.Since(a.began), 0, f.Prefill, f.Decode
	b["prompt_eval_count"], b["eval_count"] = f.Prompt, f.Output
	return b
}

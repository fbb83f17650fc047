package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// chatAnswer is the answer to a chat request as it is made.
type chatAnswer struct {
	style   chat.ToolStyle
	server  *Server
	request *chatRequest
	id      string
	created int64
	choices []chatState
	soFar   usage
	usage   usage // of what has finished
}

// chatState is one choice so far.
type chatState struct {
	parser             *chat.OutputParser
	content, reasoning strings.Builder
	calls              []toolCall
	logprobs           []tokenLogprob
	finish             string
	stop               string // the stop string that ended it
	begun              bool
}

func newChatAnswer(s *Server, q *chatRequest, id string, o chat.OutputOptions, all []job) *chatAnswer {
	a := &chatAnswer{style: o.Style.Tools, server: s, request: q, id: "chatcmpl-" + id, created: time.Now().Unix(), choices: make([]chatState, len(all)), soFar: begun(all)}
	for i := range a.choices {
		a.choices[i].parser = chat.NewOutputParser(o)
	}
	return a
}

// delta is what a piece adds to a message.
type delta struct {
	Content          string     `json:"content,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
}

// take adds a piece to its choice and returns what it brings.
func (a *chatAnswer) take(j *job, p ridge.Piece) []delta {
	c := &a.choices[j.index]
	deltas := c.parser.Feed(p.Text)
	if p.Token != nil {
		a.soFar.token()
	}
	if p.Token != nil && a.request.Logprobs {
		c.logprobs = append(c.logprobs, a.server.chatLogprobs(p.Token))
	}
	if p.Finish != nil {
		deltas = append(deltas, c.parser.Finish()...)
		a.usage.add(j, p.Finish)
	}
	var out []delta
	for _, d := range deltas {
		c.content.WriteString(d.Content)
		c.reasoning.WriteString(d.Reasoning)
		x := delta{Content: d.Content, ReasoningContent: d.Reasoning}
		if d.Call != nil {
			x.ToolCalls = []toolCall{a.call(j, c, d.Call)}
		}
		out = append(out, x)
	}
	if p.Finish != nil {
		c.finish, c.stop = string(p.Finish.Reason), p.Finish.Stop
		if len(c.calls) > 0 && c.finish == "stop" {
			c.finish = "tool_calls"
		}
	}
	return out
}

// call adds a piece of a call to the choice's calls and returns it as streams have it.
func (a *chatAnswer) call(j *job, c *chatState, d *chat.CallDelta) toolCall {
	piece := toolCall{Index: &d.Index, Function: callFunction{Name: d.Name, Arguments: d.Arguments}}
	if d.Index == len(c.calls) {
		piece.ID, piece.Type = a.style.CallID(fmt.Sprintf("%s_%d_%d", strings.TrimPrefix(a.id, "chatcmpl-"), j.index, d.Index)), "function"
		c.calls = append(c.calls, toolCall{ID: piece.ID, Type: piece.Type, Function: callFunction{Name: d.Name}})
	}
	c.calls[d.Index].Function.Arguments += d.Arguments
	return piece
}

func (a *chatAnswer) head(object string, choices []any) map[string]any {
	return map[string]any{"id": a.id, "object": object, "created": a.created, "model": a.server.options.Name, "choices": choices}
}

// whole is the answer in one piece.
func (a *chatAnswer) whole() map[string]any {
	choices := []any{}
	for i := range a.choices {
		c := &a.choices[i]
		message := map[string]any{"role": "assistant", "content": c.content.String(), "refusal": nil}
		if len(c.calls) > 0 {
			if c.content.Len() == 0 {
				message["content"] = nil
			}
			message["tool_calls"] = c.calls
		}
		if c.reasoning.Len() > 0 {
			message["reasoning_content"] = c.reasoning.String()
		}
		choices = append(choices, map[string]any{"index": i, "message": message, "finish_reason": c.finish, "logprobs": logprobList(c.logprobs)})
	}
	body := a.head("chat.completion", choices)
	body["usage"] = a.usage
	return body
}

// logprobList is OpenAI's shape of a list of log-probabilities; null when there are none.
func logprobList(list []tokenLogprob) any {
	if len(list) == 0 {
		return nil
	}
	return map[string]any{"content": list, "refusal": nil}
}

// stream sends the answer as it comes.
func (a *chatAnswer) stream(ctx context.Context, out *stream, all []job) error {
	chunk := func(index int, d any, logprobs []tokenLogprob, finish any) error {
		event := a.head("chat.completion.chunk", []any{map[string]any{
			"index": index, "delta": d, "logprobs": logprobList(logprobs), "finish_reason": finish}})
		a.request.StreamOptions.tell(event, a.soFar)
		return out.send(event)
	}
	err := a.server.run(ctx, all, func(j *job, p ridge.Piece) error {
		c := &a.choices[j.index]
		if !c.begun {
			c.begun = true
			if err := chunk(j.index, map[string]string{"role": "assistant", "content": ""}, nil, nil); err != nil {
				return err
			}
		}
		deltas := a.take(j, p)
		if len(deltas) == 0 && p.Token != nil {
			deltas = []delta{{}} // the token's text is held back, and clients count events as tokens
		}
		for _, d := range deltas {
			if err := chunk(j.index, d, c.logprobs, nil); err != nil {
				return err
			}
			c.logprobs = nil
		}
		if p.Finish == nil {
			return nil
		}
		return chunk(j.index, delta{}, nil, c.finish)
	})
	if err != nil {
		return err
	}
	if o := a.request.StreamOptions; o != nil && o.IncludeUsage {
		last := a.head("chat.completion.chunk", []any{})
		last["usage"] = a.usage
		if err := out.send(last); err != nil {
			return err
		}
	}
	return out.end()
}

package openai

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// ChatAnswer is the answer to a chat request so far.
type ChatAnswer struct {
	style   chat.ToolStyle
	Service *serving.Service
	Request *ChatRequest
	Id      string
	created int64
	Choices []ChatState
	SoFar   Usage
	scores  []map[string]scored // of the prompt
	asked   []int32             // the prompt's ids, to be said
	Usage   Usage               // of what has finished
}

// ChatState is one choice so far.
type ChatState struct {
	parser             *chat.OutputParser
	Content, Reasoning strings.Builder
	Calls              []ToolCall
	Logprobs           []tokenLogprob
	ids                []int32 // of its tokens, to be said
	Finish             string
	Stop               string // the stop string that ended it
	Begun              bool
}

// NewChatAnswer makes the empty answer to a request, with the parsers of its output. id is the request's.
func NewChatAnswer(s *serving.Service, q *ChatRequest, id string, o chat.OutputOptions, all []serving.Job) *ChatAnswer {
	a := &ChatAnswer{style: o.Style.Tools, Service: s, Request: q, Id: "chatcmpl-" + id, created: time.Now().Unix(), Choices: make([]ChatState, len(all)), SoFar: begun(all)}
	for i := range a.Choices {
		a.asked = all[i].Prompt
		a.Choices[i].parser = chat.NewOutputParser(o)
	}
	return a
}

// Delta is what a piece adds to a message.
type Delta struct {
	Content          string     `json:"content,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// Take adds a piece to its choice and returns the deltas that it gives.
func (a *ChatAnswer) Take(j *serving.Job, p ridge.Piece) []Delta {
	c := &a.Choices[j.Index]
	deltas := c.parser.Feed(p.Text)
	c.ids = a.Request.take(c.ids, p)
	if p.Token != nil {
		a.SoFar.token()
	}
	if n := a.Request.PromptLogprobs; n != nil && len(p.Prompt) > 0 {
		a.scores = promptEntries(a.Service, p.Prompt, *n)
	}
	if p.Token != nil && a.Request.Logprobs {
		c.Logprobs = append(c.Logprobs, chatLogprobs(a.Service, likeliest(p.Token, a.Request.TopLogprobs)))
	}
	if p.Finish != nil {
		deltas = append(deltas, c.parser.Finish()...)
		a.Usage.add(j, p.Finish)
	}
	var out []Delta
	for _, d := range deltas {
		c.Content.WriteString(d.Content)
		c.Reasoning.WriteString(d.Reasoning)
		x := Delta{Content: d.Content, ReasoningContent: d.Reasoning}
		if d.Call != nil {
			x.ToolCalls = []ToolCall{a.call(j, c, d.Call)}
		}
		out = append(out, x)
	}
	if p.Finish != nil {
		c.Finish, c.Stop = string(p.Finish.Reason), p.Finish.Stop
		if len(c.Calls) > 0 && c.Finish == "stop" {
			c.Finish = "tool_calls"
		}
	}
	return out
}

// call adds a piece of a call to the choice's calls and returns it as streams have it.
func (a *ChatAnswer) call(j *serving.Job, c *ChatState, d *chat.CallDelta) ToolCall {
	piece := ToolCall{Index: &d.Index, Function: CallFunction{Name: d.Name, Arguments: d.Arguments}}
	if d.Index == len(c.Calls) {
		piece.ID, piece.Type = a.style.CallID(fmt.Sprintf("%s_%d_%d", strings.TrimPrefix(a.Id, "chatcmpl-"), j.Index, d.Index)), "function"
		c.Calls = append(c.Calls, ToolCall{ID: piece.ID, Type: piece.Type, Function: CallFunction{Name: d.Name}})
	}
	c.Calls[d.Index].Function.Arguments += d.Arguments
	return piece
}

func (a *ChatAnswer) head(object string, choices []any) map[string]any {
	return map[string]any{"id": a.Id, "object": object, "created": a.created, "model": a.Request.Answered(a.Service), "choices": choices, "service_tier": "default"}
}

// whole is the answer in one piece.
func (a *ChatAnswer) whole() map[string]any {
	choices := []any{}
	for i := range a.Choices {
		c := &a.Choices[i]
		message := map[string]any{"role": "assistant", "content": c.Content.String(), "refusal": nil}
		if len(c.Calls) > 0 {
			if c.Content.Len() == 0 {
				message["content"] = nil
			}
			message["tool_calls"] = c.Calls
		}
		if c.Reasoning.Len() > 0 {
			message["reasoning_content"] = c.Reasoning.String()
		}
		choice := map[string]any{"index": i, "message": message, "finish_reason": c.Finish, "logprobs": logprobList(c.Logprobs)}
		a.Request.put(choice, "token_ids", c.ids)
		choices = append(choices, choice)
	}
	body := a.head("chat.completion", choices)
	if a.scores != nil {
		body["prompt_logprobs"] = a.scores
	}
	a.Request.put(body, "prompt_token_ids", a.asked)
	body["usage"] = a.Usage
	a.Usage.tellTransfer(body)
	return body
}

// logprobList is OpenAI's shape of a list of log-probabilities; null when there are none.
func logprobList(list []tokenLogprob) any {
	if len(list) == 0 {
		return nil
	}
	return map[string]any{"content": list, "refusal": nil}
}

// stream sends the answer in pieces.
func (a *ChatAnswer) stream(ctx context.Context, out *api.Stream, all []serving.Job) error {
	chunk := func(index int, d any, logprobs []tokenLogprob, finish any) error {
		choice := map[string]any{"index": index, "delta": d, "logprobs": logprobList(logprobs), "finish_reason": finish}
		c := &a.Choices[index]
		a.Request.put(choice, "token_ids", c.ids)
		event := a.head("chat.completion.chunk", []any{choice})
		a.Request.put(event, "prompt_token_ids", a.asked)
		c.ids, a.asked = nil, nil
		a.Request.StreamOptions.tell(event, a.SoFar)
		return out.Send(event)
	}
	err := a.Service.Run(ctx, all, func(j *serving.Job, p ridge.Piece) error {
		c := &a.Choices[j.Index]
		if !c.Begun {
			c.Begun = true
			if err := chunk(j.Index, map[string]string{"role": "assistant", "content": ""}, nil, nil); err != nil {
				return err
			}
		}
		deltas := a.Take(j, p)
		if len(deltas) == 0 && p.Token != nil {
			deltas = []Delta{{}} // the token's text is held back, and clients count events as tokens
		}
		for _, d := range deltas {
			if err := chunk(j.Index, d, c.Logprobs, nil); err != nil {
				return err
			}
			c.Logprobs = nil
		}
		if p.Finish == nil {
			return nil
		}
		return chunk(j.Index, Delta{}, nil, c.Finish)
	})
	if err != nil {
		return err
	}
	if o := a.Request.StreamOptions; o != nil && o.IncludeUsage {
		last := a.head("chat.completion.chunk", []any{})
		last["usage"] = a.Usage
		if err := out.Send(last); err != nil {
			return err
		}
	}
	return out.End()
}

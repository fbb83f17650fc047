package anthropic

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// messagesAnswer is a chat answer in Anthropic's form: a list of blocks.
type messagesAnswer struct {
	*openai.ChatAnswer
	block int    // index of the open block of the stream
	kind  string // its type; "" when none is open
}

// stopReason is Anthropic's word for how the choice ended, and the stop sequence if one did that.
func stopReason(c *openai.ChatState) (reason string, sequence any) {
	switch {
	case c.Finish == "length":
		return "max_tokens", nil
	case c.Finish == "tool_calls":
		return "tool_use", nil
	case c.Stop != "":
		return "stop_sequence", c.Stop
	}
	return "end_turn", nil
}

func (a *messagesAnswer) messageID() string { return "msg_" + strings.TrimPrefix(a.Id, "chatcmpl-") }

// usage is the usage in Anthropic's form, in which input_tokens are without those from the cache.
func usage(u openai.Usage) map[string]int {
	return map[string]int{"input_tokens": u.Prompt - u.Details.Cached, "cache_read_input_tokens": u.Details.Cached, "cache_creation_input_tokens": 0, "output_tokens": u.Completion}
}

func (a *messagesAnswer) message(content []any, stop, sequence any, u openai.Usage) map[string]any {
	return map[string]any{"id": a.messageID(), "type": "message", "role": "assistant", "model": a.Request.Answered(a.Service),
		"content": content, "stop_reason": stop, "stop_sequence": sequence, "usage": usage(u)}
}

// whole is the answer in one piece.
func (a *messagesAnswer) whole() map[string]any {
	c := &a.Choices[0]
	content := []any{}
	if c.Reasoning.Len() > 0 {
		content = append(content, map[string]string{"type": "thinking", "thinking": c.Reasoning.String(), "signature": ""})
	}
	if c.Content.Len() > 0 {
		content = append(content, map[string]string{"type": "text", "text": c.Content.String()})
	}
	for _, call := range c.Calls {
		input := json.RawMessage(call.Function.Arguments)
		if !json.Valid(input) {
			input = api.Quoted(call.Function.Arguments) // as the model wrote it
		}
		content = append(content, map[string]any{"type": "tool_use", "id": call.ID, "name": call.Function.Name, "input": input})
	}
	reason, sequence := stopReason(c)
	return a.message(content, reason, sequence, a.Usage)
}

// stream sends the answer: message_start, blocks, message_delta, message_stop. A token that brings no text yet
// is a ping, so that the client sees that the answer continues.
func (a *messagesAnswer) stream(ctx context.Context, out *api.Stream, j *serving.Job) error {
	err := a.Service.Run(ctx, []serving.Job{*j}, func(j *serving.Job, p ridge.Piece) error {
		c := &a.Choices[0]
		if !c.Begun {
			c.Begun = true
			if err := out.SendNamed("message_start", map[string]any{"type": "message_start", "message": a.message([]any{}, nil, nil, a.SoFar)}); err != nil {
				return err
			}
		}
		deltas := a.Take(j, p)
		if len(deltas) == 0 && p.Token != nil {
			return out.SendNamed("ping", map[string]string{"type": "ping"})
		}
		for _, d := range deltas {
			if err := a.sendDelta(out, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.closeBlock(out); err != nil {
		return err
	}
	reason, sequence := stopReason(&a.Choices[0])
	if err := out.SendNamed("message_delta", map[string]any{"type": "message_delta", "usage": usage(a.Usage),
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": sequence}}); err != nil {
		return err
	}
	return out.SendNamed("message_stop", map[string]string{"type": "message_stop"})
}

// sendDelta sends a piece, in a block of its kind: the open one, or a new one.
func (a *messagesAnswer) sendDelta(out *api.Stream, d openai.Delta) error {
	kind, start, piece := "text", map[string]any{"type": "text", "text": ""}, map[string]string{"type": "text_delta", "text": d.Content}
	fresh := false
	switch {
	case len(d.ToolCalls) > 0:
		call := d.ToolCalls[0]
		kind, fresh = "tool_use", call.ID != ""
		start = map[string]any{"type": kind, "id": call.ID, "name": call.Function.Name, "input": map[string]any{}}
		piece = map[string]string{"type": "input_json_delta", "partial_json": call.Function.Arguments}
	case d.ReasoningContent != "":
		kind, start = "thinking", map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		piece = map[string]string{"type": "thinking_delta", "thinking": d.ReasoningContent}
	}
	if fresh || kind != a.kind {
		if err := a.closeBlock(out); err != nil {
			return err
		}
		a.kind = kind
		if err := out.SendNamed("content_block_start", map[string]any{"type": "content_block_start", "index": a.block, "content_block": start}); err != nil {
			return err
		}
	}
	return out.SendNamed("content_block_delta", map[string]any{"type": "content_block_delta", "index": a.block, "delta": piece})
}

// closeBlock ends the open block, if there is one.
func (a *messagesAnswer) closeBlock(out *api.Stream) error {
	if a.kind == "" {
		return nil
	}
	a.kind = ""
	a.block++
	return out.SendNamed("content_block_stop", map[string]any{"type": "content_block_stop", "index": a.block - 1})
}

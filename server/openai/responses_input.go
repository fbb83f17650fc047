package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/server/api"
)

// inputItem is an item of /v1/responses' input: a message, a call of a tool, what the tool gave back, or reasoning.
type inputItem struct {
	Type      string          `json:"type"` // "" is message
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"` // a string or parts
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"` // a string or parts
}

// items are those of the conversation: what was kept of it, and the input.
func (q *responsesRequest) items() (items []inputItem, err error) {
	for _, raw := range q.history {
		var x inputItem
		if err := json.Unmarshal(raw, &x); err != nil {
			return nil, fmt.Errorf("the response %s was not kept whole: %w", q.Previous, err)
		}
		items = append(items, x)
	}
	var text string
	var own []inputItem
	switch {
	case !api.Present(q.Input):
		return nil, api.Invalid("input", "input is missing")
	case json.Unmarshal(q.Input, &text) == nil:
		own = []inputItem{{Role: "user", Content: api.Quoted(text)}}
	case json.Unmarshal(q.Input, &own) != nil:
		return nil, api.Invalid("input", "input should be a string or an array of items")
	}
	return append(items, own...), nil
}

// messages reads the input. Calls and reasoning are items of their own here and parts of the assistant's message in a
// chat, so those in a row become one message.
func (q *responsesRequest) messages(c *ChatRequest) error {
	items, err := q.items()
	if err != nil {
		return err
	}
	var open *ChatMessage // the assistant's, that the next items still belong to
	assistant := func() *ChatMessage {
		if open == nil {
			c.Messages = append(c.Messages, ChatMessage{Role: "assistant"})
			open = &c.Messages[len(c.Messages)-1]
		}
		return open
	}
	for i := range items {
		x := &items[i]
		field := fmt.Sprintf("input[%d]", i-len(q.history))
		if i < len(q.history) {
			field = fmt.Sprintf("previous_response_id[%d]", i)
		}
		switch {
		case x.Type == "reasoning":
			text, err := inputText(field+".content", x.Content)
			if err != nil {
				return err
			}
			assistant().ReasoningContent += text
		case x.Type == "function_call":
			m := assistant()
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: x.CallID, Type: "function", Function: CallFunction{Name: x.Name, Arguments: x.Arguments}})
		case x.Type == "function_call_output":
			text, err := inputText(field+".output", x.Output)
			if err != nil {
				return err
			}
			open = nil
			c.Messages = append(c.Messages, ChatMessage{Role: "tool", ToolCallID: x.CallID, Content: api.Quoted(text)})
		case x.Type != "" && x.Type != "message":
			return api.Invalid(field+".type", "%s.type is %q; message, function_call, function_call_output and reasoning are supported", field, x.Type)
		default:
			text, err := inputText(field+".content", x.Content)
			if err != nil {
				return err
			}
			if x.Role == "assistant" {
				if open == nil || len(open.Content) > 0 {
					open = nil
					assistant()
				}
				open.Content = api.Quoted(text)
				continue
			}
			open = nil
			c.Messages = append(c.Messages, ChatMessage{Role: x.Role, Content: api.Quoted(text)})
		}
	}
	return nil
}

// inputText joins the texts of content that is a string or an array of parts.
func inputText(field string, raw json.RawMessage) (string, error) {
	var text string
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	switch {
	case !api.Present(raw) || json.Unmarshal(raw, &text) == nil:
		return text, nil
	case json.Unmarshal(raw, &parts) != nil:
		return "", api.Invalid(field, "%s should be a string or an array of parts", field)
	}
	var all []string
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text", "reasoning_text", "summary_text":
			all = append(all, p.Text)
		default:
			return "", api.Invalid(field, "%s has a part of type %q; only text is supported", field, p.Type)
		}
	}
	return strings.Join(all, "\n"), nil
}

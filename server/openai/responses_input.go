package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/server/api"
)

// inputItem is an item of /v1/responses' input: a message, a call of a tool, what the tool gave back, or reasoning.
type inputItem struct {
	Type      string          `json:"type"` // "" is message
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"` // a string or parts
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Space     string          `json:"namespace"` // of the tool
	Sealed    string          `json:"encrypted_content"`
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
			if text == "" && x.Sealed != "" {
				if text, err = unseal(field+".encrypted_content", x.Sealed); err != nil {
					return err
				}
			}
			assistant().ReasoningContent += text
		case x.Type == "function_call":
			m := assistant()
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: x.CallID, Type: "function", Function: CallFunction{Name: spacedTool{x.Space, x.Name}.shown(), Arguments: x.Arguments}})
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

// sealMark begins reasoning as clients keep it that do not have the server keep it.
const sealMark = "ridge:"

// seal is reasoning in the form that such clients send back. It hides nothing: the answer has the text beside it.
func seal(text string) string {
	return sealMark + base64.StdEncoding.EncodeToString([]byte(text))
}

func unseal(field, sealed string) (string, error) {
	inner, ok := strings.CutPrefix(sealed, sealMark)
	text, err := base64.StdEncoding.DecodeString(inner)
	if !ok || err != nil || !utf8.Valid(text) {
		return "", api.Invalid(field, "%s was not made by this server, and cannot be read; leave the item out", field)
	}
	return string(text), nil
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

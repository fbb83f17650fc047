package openai

import (
	"encoding/json"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/api"
)

// ChatMessage is a message as clients send it.
type ChatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"` // a string, parts, or null
	Name             string          `json:"name"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []ToolCall      `json:"tool_calls"`
}

// ToolCall is a call, whole or a piece of one in a stream.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"` // in streams
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function CallFunction `json:"function"`
}

// CallFunction is the name and the arguments of a call, or in streams pieces of them.
type CallFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// message is message i of a conversation in the template's terms.
func (m *ChatMessage) message(i int) (chat.Message, error) {
	c := chat.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID, ReasoningContent: m.ReasoningContent}
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return c, api.Invalid("messages", "message %d has the role %q; system, developer, user, assistant and tool are possible", i, m.Role)
	}
	for _, call := range m.ToolCalls {
		c.ToolCalls = append(c.ToolCalls, chat.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role != "assistant" {
			return c, api.Invalid("messages", "message %d of the %s has no content", i, m.Role)
		}
		return c, nil
	}
	if json.Unmarshal(m.Content, &c.Content) == nil {
		return c, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return c, api.Invalid("messages", "the content of message %d should be a string or an array of parts", i)
	}
	for _, p := range parts {
		if p.Type != "text" {
			return c, api.Invalid("messages", "message %d has a part of type %q; only text is supported", i, p.Type)
		}
		c.Parts = append(c.Parts, chat.Part{Type: p.Type, Text: p.Text})
	}
	return c, nil
}

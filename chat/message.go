package chat

import (
	"fmt"

	"github.com/ridge-llm/ridge/chat/jinja"
)

// Message is one message of a conversation, in the terms of the OpenAI chat API.
type Message struct {
	Role             string // system, developer, user, assistant or tool
	Content          string // the text; Parts, when there are any, stand instead of it
	Parts            []Part
	ReasoningContent string     // what an assistant thought before it answered
	ToolCalls        []ToolCall // what an assistant wants called
	ToolCallID       string     // of a tool's message: the call it answers
	Name             string     // of the tool, or of the speaker
}

// Part is a piece of a message's content.
type Part struct {
	Type string // "text"
	Text string
}

// ToolCall is one call of a tool by an assistant.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON, as the model wrote it
}

// value gives the message as templates see it: keys in the order in which API clients send them, arguments decoded.
func (m Message) value(c contentForm) *jinja.Map {
	v := jinja.NewMap().Set("role", m.Role)
	if m.Name != "" {
		v.Set("name", m.Name)
	}
	if m.ToolCallID != "" {
		v.Set("tool_call_id", m.ToolCallID)
	}
	v.Set("content", m.content(c))
	if m.ReasoningContent != "" {
		v.Set("reasoning_content", m.ReasoningContent)
	}
	if len(m.ToolCalls) > 0 {
		calls := jinja.NewList()
		for _, call := range m.ToolCalls {
			calls.Append(call.value())
		}
		v.Set("tool_calls", calls)
	}
	return v
}

// checkParts refuses content that is no text.
func (m Message) checkParts() error {
	for _, p := range m.Parts {
		if p.Type != "text" {
			return fmt.Errorf("chat: a message has content of type %q; only text is supported", p.Type)
		}
	}
	return nil
}

// contentForm says which forms of content a template prints as they are meant.
type contentForm struct {
	text  bool // a str
	parts bool // a list of {"type": "text", "text": …}
}

// content gives the content in a form that the template knows: as the client sent it, if possible.
func (m Message) content(c contentForm) any {
	parts := m.Parts
	switch {
	case len(parts) == 0 && (c.text || !c.parts):
		return m.Content
	case len(parts) == 0:
		parts = []Part{{"text", m.Content}}
	case !c.parts:
		return m.text()
	}
	list := jinja.NewList()
	for _, p := range parts {
		list.Append(jinja.NewMap().Set("type", p.Type).Set("text", p.Text))
	}
	return list
}

// value gives the call as templates see it. Arguments that are not a JSON object, as a model may have written them, stay
// text.
func (c ToolCall) value() *jinja.Map {
	var arguments any = c.Arguments
	if v, err := jinja.DecodeJSON([]byte(c.Arguments)); err == nil {
		if object, ok := v.(*jinja.Map); ok {
			arguments = object
		}
	}
	function := jinja.NewMap().Set("name", c.Name).Set("arguments", arguments)
	v := jinja.NewMap()
	if c.ID != "" {
		v.Set("id", c.ID)
	}
	return v.Set("type", "function").Set("function", function)
}

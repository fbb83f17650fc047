package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// messagesRequest is the body of POST /v1/messages, in Anthropic's form. It is converted to a chat request.
type messagesRequest struct {
	Model         string          `json:"model"`
	MaxTokens     *int            `json:"max_tokens"`
	System        json.RawMessage `json:"system"` // a string or text blocks
	Messages      []message       `json:"messages"`
	Stream        bool            `json:"stream"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	StopSequences []string        `json:"stop_sequences"`
	openai.DiffusionFields
	Tools      []tool `json:"tools"`
	ToolChoice *struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		Single bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking struct {
		Type string `json:"type"` // enabled, adaptive or disabled; "": as the model does by itself
	} `json:"thinking"`
	Thread       json.RawMessage `json:"thread"`
	OutputFormat json.RawMessage `json:"output_format"`
	OutputConfig struct {
		Effort string          `json:"effort"`
		Format json.RawMessage `json:"format"`
	} `json:"output_config"`
}

type tool struct {
	Type        string          `json:"type"` // "", or custom
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string or blocks
}

// block is a part of a message: text, thinking, a call of a tool, or what a tool gave back.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocks reads content that is a string or an array of blocks.
func blocks(field string, raw json.RawMessage) ([]block, error) {
	var text string
	var list []block
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		return []block{{Type: "text", Text: text}}, nil
	case json.Unmarshal(raw, &list) == nil:
		return list, nil
	}
	return nil, api.Invalid(field, "%s should be a string or an array of blocks", field)
}

// texts joins text blocks; others are refused.
func texts(field string, raw json.RawMessage) (string, error) {
	list, err := blocks(field, raw)
	var all []string
	for _, b := range list {
		if b.Type != "text" {
			return "", api.Invalid(field, "%s has a block of type %q; only text is supported there", field, b.Type)
		}
		all = append(all, b.Text)
	}
	return strings.Join(all, "\n"), err
}

// checkThread refuses conversations that the server keeps, in the words by which Anthropic's clients know to send the whole conversation instead.
func (q *messagesRequest) checkThread() error {
	if !api.Present(q.Thread) {
		return nil
	}
	err := api.Invalid("thread", "thread is not supported: conversations are not kept between messages; send all of its messages, which are found in the cache of prefixes")
	err.Details = map[string]any{"error_code": "thread_unsupported_request", "unsupported": []string{"thread"}}
	return err
}

// chat converts the request to OpenAI's form. An assistant's message at the end is the beginning of the answer.
func (q *messagesRequest) chat() (*openai.ChatRequest, error) {
	c := &openai.ChatRequest{Sampling: openai.Sampling{
		DiffusionFields: q.DiffusionFields,
		Model:           q.Model, Stream: q.Stream, MaxTokens: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP, TopK: q.TopK, Stop: q.StopSequences}}
	if err := q.checkThread(); err != nil {
		return nil, err
	}
	system, err := texts("system", q.System)
	if err != nil {
		return nil, err
	}
	if system != "" {
		c.Messages = append(c.Messages, openai.ChatMessage{Role: "system", Content: api.Quoted(system)})
	}
	for _, m := range q.Messages {
		list, err := m.chat()
		if err != nil {
			return nil, err
		}
		c.Messages = append(c.Messages, list...)
	}
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == "assistant" && len(c.Messages[n-1].ToolCalls) == 0 {
		c.ContinueFinal = true
	}
	if err := q.think(c); err != nil {
		return nil, err
	}
	if err := q.offer(c); err != nil {
		return nil, err
	}
	return c, q.format(c)
}

// think sets the template variables for reasoning.
func (q *messagesRequest) think(c *openai.ChatRequest) error {
	c.ReasoningEffort = q.OutputConfig.Effort
	switch q.Thinking.Type {
	case "":
	case "enabled", "adaptive":
		c.TemplateArgs = openai.Thinking(true)
	case "disabled":
		c.TemplateArgs = openai.Thinking(false)
	default:
		return api.Invalid("thinking", "thinking.type is %q; enabled, adaptive and disabled are possible", q.Thinking.Type)
	}
	return nil
}

// chat is a message as OpenAI has it: results of tools are messages of their own there.
func (m *message) chat() ([]openai.ChatMessage, error) {
	if m.Role != "user" && m.Role != "assistant" {
		return nil, api.Invalid("messages", "a message has the role %q; user and assistant are possible", m.Role)
	}
	list, err := blocks("content", m.Content)
	if err != nil {
		return nil, err
	}
	var all []openai.ChatMessage
	var said []string
	one := openai.ChatMessage{Role: m.Role}
	for _, b := range list {
		switch b.Type {
		case "text":
			said = append(said, b.Text)
		case "thinking":
			one.ReasoningContent += b.Thinking
		case "tool_use":
			one.ToolCalls = append(one.ToolCalls, openai.ToolCall{ID: b.ID, Type: "function", Function: openai.CallFunction{Name: b.Name, Arguments: string(b.Input)}})
		case "tool_result":
			text, err := texts("content", b.Content)
			if err != nil {
				return nil, err
			}
			all = append(all, openai.ChatMessage{Role: "tool", ToolCallID: b.ToolUseID, Content: api.Quoted(text)})
		default:
			return nil, api.Invalid("messages", "a message has a block of type %q; text, thinking, tool_use and tool_result are supported", b.Type)
		}
	}
	if len(said) > 0 || len(one.ToolCalls) > 0 || len(all) == 0 {
		one.Content = api.Quoted(strings.Join(said, "\n"))
		all = append(all, one)
	}
	return all, nil
}

// messages is POST /v1/messages.
func (s *API) messages(w http.ResponseWriter, r *http.Request) (any, error) {
	a, all, err := s.newMessagesAnswer(w, r)
	if err != nil {
		return nil, err
	}
	if a.Request.Stream {
		out := api.NewStream(w)
		err := a.stream(r.Context(), out, &all[0])
		if err != nil && out.Begun {
			_ = out.SendNamed("error", Error(s.Error(w, r, err))) // the client may have gone
			return nil, nil
		}
		return nil, err
	}
	if err := s.Run(r.Context(), all, func(j *serving.Job, p ridge.Piece) error { a.Take(j, p); return nil }); err != nil {
		return nil, err
	}
	return a.whole(), nil
}

func (s *API) newMessagesAnswer(w http.ResponseWriter, r *http.Request) (*messagesAnswer, []serving.Job, error) {
	var q messagesRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, nil, err
	}
	if q.MaxTokens == nil {
		return nil, nil, api.Invalid("max_tokens", "max_tokens is missing; it is required")
	}
	c, err := q.chat()
	if err != nil {
		return nil, nil, err
	}
	if err := c.CheckChat(s.Service); err != nil {
		return nil, nil, err
	}
	all, o, err := c.Job(r.Context(), s.Service)
	if err != nil {
		return nil, nil, err
	}
	serving.Announce(w, all)
	return &messagesAnswer{ChatAnswer: openai.NewChatAnswer(s.Service, c, w.Header().Get("X-Request-Id"), o, all)}, all, nil
}

// countTokens is POST /v1/messages/count_tokens: how many tokens a message's prompt would have.
func (s *API) countTokens(w http.ResponseWriter, r *http.Request) (any, error) {
	var q messagesRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	c, err := q.chat()
	if err != nil {
		return nil, err
	}
	_, ids, err := c.Tokens(r.Context(), s.Service)
	return map[string]int{"input_tokens": len(ids)}, err
}

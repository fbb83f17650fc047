package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
)

// ollamaRequest is the body of POST /api/chat and /api/generate, in Ollama's words. It is turned into a chat request.
type ollamaRequest struct {
	Model    string            `json:"model"`
	Stream   *bool             `json:"stream"` // default true
	Messages []ollamaMessage   `json:"messages"`
	Prompt   string            `json:"prompt"`
	System   string            `json:"system"`
	Tools    []json.RawMessage `json:"tools"`
	Format   json.RawMessage   `json:"format"`
	Options  struct {
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"top_p"`
		TopK             *int     `json:"top_k"`
		MinP             *float64 `json:"min_p"`
		Seed             *int64   `json:"seed"`
		Predict          *int     `json:"num_predict"` // below 1: no limit
		Stop             []string `json:"stop"`
		RepeatPenalty    *float64 `json:"repeat_penalty"`
		PresencePenalty  *float64 `json:"presence_penalty"`
		FrequencyPenalty *float64 `json:"frequency_penalty"`
	} `json:"options"`
}

// ollamaMessage is a message as Ollama has it: the arguments of calls are objects.
type ollamaMessage struct {
	Role      string            `json:"role"`
	Content   string            `json:"content"`
	Thinking  string            `json:"thinking,omitempty"`
	Images    []json.RawMessage `json:"images,omitempty"`
	ToolName  string            `json:"tool_name,omitempty"`
	ToolCalls []ollamaCall      `json:"tool_calls,omitempty"`
}

type ollamaCall struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// chat is the same request in OpenAI's words. Names may end in ":latest".
func (q *ollamaRequest) chat() (*chatRequest, error) {
	o := &q.Options
	c := &chatRequest{offer: offer{Tools: q.Tools}, sampling: sampling{
		Model: strings.TrimSuffix(q.Model, ":latest"), Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, MinP: o.MinP, Seed: o.Seed, Stop: o.Stop,
		RepetitionPenalty: o.RepeatPenalty, PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty}}
	switch format := string(q.Format); {
	case !present(q.Format), format == `""`:
	case format == `"json"`:
		c.ResponseFormat = json.RawMessage(`{"type": "json_object"}`)
	case format[0] == '{':
		c.GuidedJSON, c.jsonField = q.Format, "format"
	default:
		return nil, bad("format", `format is %.100s; "json" and a JSON schema are possible`, format)
	}
	if o.Predict != nil && *o.Predict > 0 {
		c.MaxTokens = o.Predict
	}
	messages := q.Messages
	if q.Prompt != "" {
		messages = append(messages, ollamaMessage{Role: "user", Content: q.Prompt})
	}
	if q.System != "" {
		c.Messages = append(c.Messages, chatMessage{Role: "system", Content: quoted(q.System)})
	}
	for i, m := range messages {
		if len(m.Images) > 0 {
			return nil, bad("images", "message %d has images; only text is supported", i)
		}
		x := chatMessage{Role: m.Role, Content: quoted(m.Content), ReasoningContent: m.Thinking, Name: m.ToolName}
		for _, call := range m.ToolCalls {
			x.ToolCalls = append(x.ToolCalls, toolCall{Type: "function", Function: callFunction{Name: call.Function.Name, Arguments: string(call.Function.Arguments)}})
		}
		c.Messages = append(c.Messages, x)
	}
	return c, nil
}

// ollama is POST /api/chat and, if generate is set, /api/generate: a conversation of one message.
func (s *Server) ollama(generate bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &ollamaAnswer{generate: generate, out: newStream(w), began: time.Now()}
		if err := s.answerOllama(a, w, r); err != nil {
			a.fail(s, r, err)
		}
	}
}

func (s *Server) answerOllama(a *ollamaAnswer, w http.ResponseWriter, r *http.Request) error {
	ctx, cancel, err := deadline(r)
	if err != nil {
		return err
	}
	defer cancel()
	var q ollamaRequest
	if err := decode(w, r, &q); err != nil {
		return err
	}
	c, err := q.chat()
	if err != nil {
		return err
	}
	if err := c.checkChat(s); err != nil {
		return err
	}
	all, o, err := c.job(ctx, s)
	if err != nil {
		return err
	}
	a.chatAnswer = newChatAnswer(s, c, w.Header().Get("X-Request-Id"), o, 1)
	streamed := q.Stream == nil || *q.Stream
	var finish *ridge.Finish
	err = s.run(ctx, all, func(j *job, p ridge.Piece) error {
		finish = p.Finish
		for _, d := range a.take(j, p) {
			if streamed && (d.Content != "" || d.ReasoningContent != "") {
				if err := a.out.line(a.body(d.Content, d.ReasoningContent, nil)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	last := a.last(streamed, finish)
	if streamed {
		return a.out.line(last)
	}
	writeJSON(w, http.StatusOK, last)
	return nil
}

// tags is GET /api/tags, and ps GET /api/ps: the one model, which is loaded.
func (s *Server) tags(w http.ResponseWriter, _ *http.Request) {
	weights, cache, activations := s.model.Memory()
	writeJSON(w, http.StatusOK, map[string]any{"models": []any{map[string]any{
		"name": s.options.Name, "model": s.options.Name, "modified_at": s.created, "size": weights + cache + activations,
		"details": map[string]string{}, "context_length": s.model.Context()}}})
}

// show is POST /api/show.
func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	var q ollamaRequest
	err := decode(w, r, &q)
	if err == nil {
		err = (&sampling{Model: strings.TrimSuffix(q.Model, ":latest")}).check(s)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	capabilities := []string{"completion"}
	if s.model.Style().Tools != "" {
		capabilities = append(capabilities, "tools")
	}
	writeJSON(w, http.StatusOK, map[string]any{"details": map[string]string{}, "capabilities": capabilities,
		"model_info": map[string]any{"general.name": s.model.Name()}, "parameters": fmt.Sprintf("num_ctx %d", s.model.Context())})
}

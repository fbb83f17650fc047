package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/chat"
)

// ollamaRequest is the body of POST /api/chat and /api/generate, in Ollama's words. It is turned into a chat request, or for
// a raw prompt into a completion request.
type ollamaRequest struct {
	Model       string            `json:"model"`
	Stream      *bool             `json:"stream"` // default true
	Messages    []ollamaMessage   `json:"messages"`
	Prompt      string            `json:"prompt"`
	System      string            `json:"system"`
	Raw         bool              `json:"raw"` // the prompt is the whole prompt
	Think       json.RawMessage   `json:"think"`
	Tools       []json.RawMessage `json:"tools"`
	Format      json.RawMessage   `json:"format"`
	Logprobs    bool              `json:"logprobs"`
	TopLogprobs int               `json:"top_logprobs"`
	Options     struct {
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

// refuses are the fields that would change an answer and are not done. keep_alive and num_ctx ask for no more than there
// is: the model stays loaded, with the context that it was started with.
func (q *ollamaRequest) refuses() map[string]refusal {
	return map[string]refusal{
		"suffix":   {`""`, "text is continued, not filled in; write the model's own tokens for that into a raw prompt"},
		"template": {`""`, "the template is chosen when the server starts (--chat-template); a raw prompt goes without"},
		"context":  {"[]", "nothing is kept between requests; send the conversation to /api/chat"},
		"images":   {"[]", "only text is read"},
	}
}

// ollamaMessage is a message as Ollama has it: the arguments of calls are objects.
type ollamaMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Thinking   string            `json:"thinking,omitempty"`
	Images     []json.RawMessage `json:"images,omitempty"`
	ToolName   string            `json:"tool_name,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	ToolCalls  []ollamaCall      `json:"tool_calls,omitempty"`
}

type ollamaCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// ollamaName is a model's name without the tag that Ollama's clients put behind it.
func ollamaName(name string) string { return strings.TrimSuffix(name, ":latest") }

// sampling is what the options say, in OpenAI's words.
func (q *ollamaRequest) sampling() (sampling, error) {
	o := &q.Options
	s := sampling{
		Model: ollamaName(q.Model), Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, MinP: o.MinP, Seed: o.Seed, Stop: o.Stop,
		RepetitionPenalty: o.RepeatPenalty, PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty}
	if o.Predict != nil && *o.Predict > 0 {
		s.MaxTokens = o.Predict
	}
	switch format := string(q.Format); {
	case !present(q.Format), format == `""`:
	case format == `"json"`:
		s.ResponseFormat = json.RawMessage(`{"type": "json_object"}`)
	case format[0] == '{':
		s.GuidedJSON, s.jsonField = q.Format, "format"
	default:
		return s, bad("format", `format is %.100s; "json" and a JSON schema are possible`, format)
	}
	return s, nil
}

// chat is the same request in OpenAI's words.
func (q *ollamaRequest) chat(style chat.Style) (*chatRequest, error) {
	s, err := q.sampling()
	if err != nil {
		return nil, err
	}
	c := &chatRequest{sampling: s, offer: offer{Tools: q.Tools}, Logprobs: q.Logprobs, TopLogprobs: q.TopLogprobs}
	if err := q.think(c, style); err != nil {
		return nil, err
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
		x := chatMessage{Role: m.Role, Content: quoted(m.Content), ReasoningContent: m.Thinking, Name: m.ToolName, ToolCallID: m.ToolCallID}
		for _, call := range m.ToolCalls {
			x.ToolCalls = append(x.ToolCalls, toolCall{ID: call.ID, Type: "function", Function: callFunction{Name: call.Function.Name, Arguments: string(call.Function.Arguments)}})
		}
		c.Messages = append(c.Messages, x)
	}
	return c, nil
}

// think reads think: true, false, or how much in a word.
func (q *ollamaRequest) think(c *chatRequest, style chat.Style) error {
	var on bool
	var effort string
	switch {
	case !present(q.Think):
		return nil
	case json.Unmarshal(q.Think, &on) == nil:
	case json.Unmarshal(q.Think, &effort) == nil && slices.Contains([]string{"low", "medium", "high", "max"}, effort):
		on, c.ReasoningEffort = true, effort
	default:
		return bad("think", `think is %.100s; true, false, "low", "medium", "high" and "max" are possible`, q.Think)
	}
	if on && !reasons(style) {
		return bad("think", "the model does not think before it answers; leave think out")
	}
	c.TemplateArgs = thinking(on)
	return nil
}

// reasons reports whether a style of answers has reasoning in it.
func reasons(style chat.Style) bool { return style.ThinkOpen != "" || style.Tools == chat.Harmony }

// ollama is POST /api/chat and, if generate is set, /api/generate: a conversation of one message.
func (s *Server) ollama(generate bool) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		a := &ollamaAnswer{generate: generate, out: newStream(w), began: time.Now()}
		body, err := s.answerOllama(a, w, r)
		if err != nil && a.out.begun {
			_ = a.out.line(shape(r.URL.Path, s.told(w, r, err))) // the client may have gone
			return nil, nil
		}
		return body, err
	}
}

func (s *Server) answerOllama(a *ollamaAnswer, w http.ResponseWriter, r *http.Request) (any, error) {
	var q ollamaRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	a.streamed = q.Stream == nil || *q.Stream
	if q.Prompt == "" && len(q.Messages) == 0 {
		return s.loadOllama(&q, a.generate)
	}
	all, err := a.begin(r.Context(), s, &q, w.Header().Get("X-Request-Id"))
	if err != nil {
		return nil, err
	}
	if err := s.run(r.Context(), all, a.piece); err != nil || a.streamed {
		return nil, err
	}
	return a.last(), nil
}

// begin settles what is to be made and how it is read.
func (a *ollamaAnswer) begin(ctx context.Context, s *Server, q *ollamaRequest, id string) (all []job, err error) {
	c := &chatRequest{Logprobs: q.Logprobs, TopLogprobs: q.TopLogprobs}
	var o chat.OutputOptions
	if a.generate && q.Raw {
		all, err = q.raw(s)
	} else if c, err = q.chat(s.model.Style()); err == nil {
		if err = c.checkChat(s); err == nil {
			all, o, err = c.job(ctx, s)
		}
	}
	if err == nil {
		a.chatAnswer = newChatAnswer(s, c, id, o, all)
	}
	return all, err
}

// raw is what to make of a prompt that goes to the model as it is.
func (q *ollamaRequest) raw(s *Server) ([]job, error) {
	o, err := q.sampling()
	if err != nil {
		return nil, err
	}
	t := completionRequest{sampling: o, Prompt: promptList{texts: []string{q.Prompt}}}
	if q.Logprobs {
		t.Logprobs = &q.TopLogprobs
	}
	all, err := t.job(s)
	if err == nil && o.MaxTokens == nil {
		all[0].params.MaxTokens = 0 // as long as there is room
	}
	return all, err
}

// loadOllama answers a request without a prompt, which Ollama's clients send to have the model loaded. It is.
func (s *Server) loadOllama(q *ollamaRequest, generate bool) (any, error) {
	if err := (&sampling{Model: ollamaName(q.Model)}).check(s); err != nil {
		return nil, err
	}
	a := &ollamaAnswer{chatAnswer: &chatAnswer{server: s}, generate: generate}
	b := a.body(ollamaMessage{Role: "assistant"})
	b["done"], b["done_reason"] = true, "load"
	return b, nil
}

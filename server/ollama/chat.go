package ollama

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// request is the body of POST /api/chat and /api/generate, in Ollama's form. It is converted to a chat request, or for
// a raw prompt into a completion request.
type request struct {
	Model       string            `json:"model"`
	Stream      *bool             `json:"stream"` // default true
	Messages    []message         `json:"messages"`
	Prompt      string            `json:"prompt"`
	System      string            `json:"system"`
	Raw         bool              `json:"raw"`     // the prompt is the whole prompt
	Before      []int32           `json:"context"` // of /api/generate: the tokens of an earlier answer and its prompt, as that said them
	Suffix      string            `json:"suffix"`  // what follows the answer, which fills the gap behind the prompt
	Think       json.RawMessage   `json:"think"`
	Tools       []json.RawMessage `json:"tools"`
	Format      json.RawMessage   `json:"format"`
	Logprobs    bool              `json:"logprobs"`
	TopLogprobs int               `json:"top_logprobs"`
	Truncate    *bool             `json:"truncate"` // old messages, where they do not fit; default true
	Options     struct {
		Temperature   *float64 `json:"temperature"`
		TopP          *float64 `json:"top_p"`
		TopK          *int     `json:"top_k"`
		MinP          *float64 `json:"min_p"`
		Seed          *int64   `json:"seed"`
		Predict       *int     `json:"num_predict"` // below 1: no limit
		Stop          []string `json:"stop"`
		RepeatPenalty *float64 `json:"repeat_penalty"`
		RepeatLast    *int     `json:"repeat_last_n"`
		TypicalP      *float64 `json:"typical_p"`
		openai.SamplerFields
		openai.DiffusionFields
		Context          *int     `json:"num_ctx"`
		PresencePenalty  *float64 `json:"presence_penalty"`
		FrequencyPenalty *float64 `json:"frequency_penalty"`
	} `json:"options"`
}

// Refuses are the unsupported fields that would change an answer. keep_alive is ignored: the model stays loaded.
func (q *request) Refuses() map[string]api.Refusal { return refusals }

var refusals = refused()

func refused() map[string]api.Refusal {
	all := map[string]api.Refusal{
		"template": {Harmless: `""`, Why: "the template is chosen when the server starts (--chat-template); a raw prompt does not use it"},
		"images":   {Harmless: "[]", Why: "only text is read"},
	}
	for name, r := range openai.SamplerRefusals {
		all["options."+name] = r
	}
	return all
}

// checkContext refuses a context larger than the model was started with. A smaller one changes nothing but when messages are cut.
func (q *request) checkContext(s *serving.Service) error {
	if n := q.Options.Context; n != nil && *n > s.Context() {
		return api.Invalid("options.num_ctx", "options.num_ctx is %d and the model was started with a context of %d; ask for at most that, or start the server with a larger --context", *n, s.Context())
	}
	return nil
}

// message is a message as Ollama has it: the arguments of calls are objects.
type message struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Thinking   string            `json:"thinking,omitempty"`
	Images     []json.RawMessage `json:"images,omitempty"`
	ToolName   string            `json:"tool_name,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	ToolCalls  []toolCall        `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// modelName is a model's name without the tag that Ollama's clients put behind it.
func modelName(name string) string { return strings.TrimSuffix(name, ":latest") }

// sampling converts the options to OpenAI's fields.
func (q *request) sampling() (openai.Sampling, error) {
	o := &q.Options
	s := openai.Sampling{
		Model: modelName(q.Model), Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, MinP: o.MinP, Seed: o.Seed, Stop: o.Stop,
		PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty, DiffusionFields: o.DiffusionFields}
	s.RepeatPenalty, s.RepeatLast, s.TypicalP, s.SamplerFields = o.RepeatPenalty, o.RepeatLast, o.TypicalP, o.SamplerFields
	if o.Predict != nil && *o.Predict > 0 {
		s.MaxTokens = o.Predict
	}
	switch format := string(q.Format); {
	case !api.Present(q.Format), format == `""`:
	case format == `"json"`:
		s.ResponseFormat = json.RawMessage(`{"type": "json_object"}`)
	case format[0] == '{':
		s.GuidedJSON, s.JsonField, s.Loose = q.Format, "format", true
	default:
		return s, api.Invalid("format", `format is %.100s; "json" and a JSON schema are possible`, format)
	}
	return s, nil
}

// chat converts the request to OpenAI's form.
func (q *request) chat(style chat.Style) (*openai.ChatRequest, error) {
	s, err := q.sampling()
	if err != nil {
		return nil, err
	}
	c := &openai.ChatRequest{Sampling: s, ToolFields: openai.ToolFields{Tools: q.Tools}, Logprobs: q.Logprobs, TopLogprobs: q.TopLogprobs}
	if q.Truncate == nil || *q.Truncate {
		c.Truncation = "auto"
	}
	if err := q.think(c, style); err != nil {
		return nil, err
	}
	messages := q.Messages
	if q.Prompt != "" {
		messages = append(messages, message{Role: "user", Content: q.Prompt})
	}
	if q.System != "" {
		c.Messages = append(c.Messages, openai.ChatMessage{Role: "system", Content: api.Quoted(q.System)})
	}
	for i, m := range messages {
		if len(m.Images) > 0 {
			return nil, api.Invalid("images", "message %d has images; only text is supported", i)
		}
		x := openai.ChatMessage{Role: m.Role, Content: api.Quoted(m.Content), ReasoningContent: m.Thinking, Name: m.ToolName, ToolCallID: m.ToolCallID}
		for _, call := range m.ToolCalls {
			x.ToolCalls = append(x.ToolCalls, openai.ToolCall{ID: call.ID, Type: "function", Function: openai.CallFunction{Name: call.Function.Name, Arguments: string(call.Function.Arguments)}})
		}
		c.Messages = append(c.Messages, x)
	}
	return c, nil
}

// think reads think: true, false, or how much in a word.
func (q *request) think(c *openai.ChatRequest, style chat.Style) error {
	var on bool
	var effort string
	switch {
	case !api.Present(q.Think):
		return nil
	case json.Unmarshal(q.Think, &on) == nil:
	case json.Unmarshal(q.Think, &effort) == nil && slices.Contains([]string{"low", "medium", "high", "max"}, effort):
		on, c.ReasoningEffort = true, effort
	default:
		return api.Invalid("think", `think is %.100s; true, false, "low", "medium", "high" and "max" are possible`, q.Think)
	}
	if on && !reasons(style) {
		return api.Invalid("think", "the model does not reason before it answers; leave think out")
	}
	c.TemplateArgs = openai.Thinking(on)
	return nil
}

// reasons reports whether a style of answers has reasoning in it.
func reasons(style chat.Style) bool { return style.ThinkOpen != "" || style.Tools == chat.Harmony }

// ollama is POST /api/chat and, if generate is set, /api/generate: a conversation of one message.
func (s *API) ollama(generate bool) api.Endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		a := &answer{generate: generate, out: api.NewStream(w), began: time.Now()}
		body, err := s.answerOllama(a, w, r)
		if err != nil && a.out.Begun {
			_ = a.out.Line(Error(s.Error(w, r, err))) // the client may have gone
			return nil, nil
		}
		return body, err
	}
}

func (s *API) answerOllama(a *answer, w http.ResponseWriter, r *http.Request) (any, error) {
	var q request
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.checkContext(s.Service); err != nil {
		return nil, err
	}
	a.streamed = q.Stream == nil || *q.Stream
	if q.Prompt == "" && len(q.Messages) == 0 {
		return s.loadOllama(&q, a.generate)
	}
	all, err := a.begin(r.Context(), s.Service, &q, w.Header().Get("X-Request-Id"))
	if err != nil {
		return nil, err
	}
	serving.Announce(w, all)
	if err := s.Run(r.Context(), all, a.piece); err != nil || a.streamed {
		return nil, err
	}
	return a.last(), nil
}

// begin returns the jobs of a request and prepares the parser of their output.
func (a *answer) begin(ctx context.Context, s *serving.Service, q *request, id string) (all []serving.Job, err error) {
	c := &openai.ChatRequest{Logprobs: q.Logprobs, TopLogprobs: q.TopLogprobs}
	var o chat.OutputOptions
	if a.generate && (q.Raw || q.Suffix != "") {
		all, err = q.raw(ctx, s)
	} else if c, err = q.chat(s.Style()); err == nil {
		if err = c.CheckChat(s); err == nil {
			all, o, err = c.Job(ctx, s)
		}
	}
	if err == nil && a.generate && !q.Raw && q.Suffix == "" {
		a.keeps = true
		err = q.goOn(ctx, s, all)
	}
	if err == nil {
		a.ChatAnswer = openai.NewChatAnswer(s, c, id, o, all)
	}
	return all, err
}

// goOn puts the tokens of an earlier answer and its prompt, which that said, before the prompt.
func (q *request) goOn(ctx context.Context, s *serving.Service, all []serving.Job) error {
	if len(q.Before) == 0 {
		return nil
	}
	texts, err := s.Encode(ctx, []string{""}, true) // what the model expects before all text
	if err != nil {
		return err
	}
	begin := texts[0]
	for i := range all {
		rest := all[i].Prompt
		if n := len(begin); len(rest) >= n && slices.Equal(rest[:n], begin) && len(q.Before) >= n && slices.Equal(q.Before[:n], begin) {
			rest = rest[n:]
		}
		all[i].Prompt = slices.Concat(q.Before, rest)
	}
	return nil
}

// raw is what to make of a prompt that goes to the model as it is, or of the texts around a gap.
func (q *request) raw(ctx context.Context, s *serving.Service) ([]serving.Job, error) {
	o, err := q.sampling()
	if err != nil {
		return nil, err
	}
	t := openai.CompletionRequest{Sampling: o, Prompt: openai.PromptList{Texts: []string{q.Prompt}}, Suffix: q.Suffix}
	if q.Logprobs {
		t.Logprobs = &q.TopLogprobs
	}
	all, err := t.Job(ctx, s)
	if err == nil && t.MaxTokens == nil {
		all[0].Params.MaxTokens = 0 // as long as there is room
	}
	return all, err
}

// loadOllama answers a request without a prompt, which Ollama's clients send to have the model loaded. It is.
func (s *API) loadOllama(q *request, generate bool) (any, error) {
	if err := (&openai.Sampling{Model: modelName(q.Model)}).Check(s.Service); err != nil {
		return nil, err
	}
	a := &answer{ChatAnswer: &openai.ChatAnswer{Service: s.Service, Request: &openai.ChatRequest{Sampling: openai.Sampling{Model: modelName(q.Model)}}}, generate: generate}
	b := a.body(message{Role: "assistant"})
	b["done"], b["done_reason"] = true, "load"
	return b, nil
}

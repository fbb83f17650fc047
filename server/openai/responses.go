package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// responsesRequest is the body of POST /v1/responses. It has the whole conversation, or names the response that it goes on
// from. It is converted to a chat request.
type responsesRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"` // a string or items
	Instructions string          `json:"instructions"`
	MaxTokens    *int            `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	TopLogprobs  int             `json:"top_logprobs"`
	DiffusionFields
	Include      []string           `json:"include"`
	Stream       bool               `json:"stream"`
	Tools        []json.RawMessage  `json:"tools"`
	ToolChoice   json.RawMessage    `json:"tool_choice"`
	Parallel     *bool              `json:"parallel_tool_calls"`
	Metadata     map[string]string  `json:"metadata"` // the client's labels, sent back
	Reasoning    responsesReasoning `json:"reasoning"`
	Truncation   string             `json:"truncation"`
	Store        *bool              `json:"store"`
	Previous     string             `json:"previous_response_id"`
	Conversation conversationName   `json:"conversation"`
	Background   bool               `json:"background"` // the answer is that it is being made
	Text         struct {
		Format    json.RawMessage `json:"format"`
		Verbosity string          `json:"verbosity"`
	} `json:"text"`

	history []json.RawMessage     // items of the conversation before the input, which have been kept
	spaces  map[string]spacedTool // tools that have a namespace, by the name that the model knows
	leftOut []string              // tools that are not shown to the model
}

type responsesReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// What include can ask for.
const (
	logprobsOfText  = "message.output_text.logprobs"
	sealedReasoning = "reasoning.encrypted_content"
)

// responsesRefusals are the unsupported fields.
var responsesRefusals = map[string]api.Refusal{
	"prompt":             {Harmless: "", Why: "no prompts are kept here; send instructions and input"},
	"max_tool_calls":     {Harmless: "", Why: "the client calls the tools, and can stop"},
	"context_management": {Harmless: "[]", Why: "set truncation to auto, or shorten the conversation"},
}

// Refuses lists the fields that are not supported.
func (q *responsesRequest) Refuses() map[string]api.Refusal { return responsesRefusals }

// chat converts the request to a chat completion request.
func (q *responsesRequest) chat() (*ChatRequest, error) {
	for _, name := range q.Include {
		if name != logprobsOfText && name != sealedReasoning {
			return nil, api.Invalid("include", "include has %q; %s and %s are all that can be asked for", name, logprobsOfText, sealedReasoning)
		}
	}
	if q.Text.Verbosity != "" && q.Text.Verbosity != "medium" {
		return nil, api.Invalid("text.verbosity", "text.verbosity is %q; state the wanted length in the instructions", q.Text.Verbosity)
	}
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	if s := q.Reasoning.Summary; s != nil && len(*s) > 64 { // it is sent back
		return nil, api.Invalid("reasoning.summary", "reasoning.summary is %.64q; auto, concise and detailed are OpenAI's, and no summary is made", *s)
	}
	if q.MaxTokens != nil && *q.MaxTokens < 1 {
		return nil, api.Invalid("max_output_tokens", "max_output_tokens is %d; it must be 1 or more", *q.MaxTokens)
	}
	c := &ChatRequest{Sampling: Sampling{Model: q.Model, Stream: q.Stream, MaxTokens: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP, DiffusionFields: q.DiffusionFields}, Truncation: q.Truncation}
	c.Logprobs, c.TopLogprobs = q.TopLogprobs > 0 || slices.Contains(q.Include, logprobsOfText), q.TopLogprobs
	api.Set(&c.ReasoningEffort, q.Reasoning.Effort)
	if q.Instructions != "" {
		c.Messages = append(c.Messages, ChatMessage{Role: "system", Content: api.Quoted(q.Instructions)})
	}
	if err := q.messages(c); err != nil {
		return nil, err
	}
	if err := q.offer(c); err != nil {
		return nil, err
	}
	return c, q.format(c)
}

// format reads text.format: {"type": "json_schema", "name": …, "schema": …}.
func (q *responsesRequest) format(c *ChatRequest) error {
	if !api.Present(q.Text.Format) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
		Strict *bool           `json:"strict"`
	}
	if json.Unmarshal(q.Text.Format, &f) != nil {
		return api.Invalid("text.format", `text.format should be {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "name": …, "schema": …}`)
	}
	switch f.Type {
	case "text":
	case "json_object":
		c.ResponseFormat = json.RawMessage(`{"type": "json_object"}`)
	case "json_schema":
		if !api.Present(f.Schema) {
			return api.Invalid("text.format.schema", "text.format.schema is missing")
		}
		c.GuidedJSON, c.JsonField, c.Loose = f.Schema, "text.format.schema", f.Strict == nil || !*f.Strict
	default:
		return api.Invalid("text.format.type", "text.format.type is %q; text, json_object and json_schema are possible", f.Type)
	}
	return nil
}

// responses is POST /v1/responses.
func (s *API) responses(w http.ResponseWriter, r *http.Request) (any, error) {
	a, all, err := s.newResponsesAnswer(w, r)
	if err != nil {
		return nil, err
	}
	if a.asked.Background {
		return s.inBackground(w, r, a, all)
	}
	if a.asked.Stream {
		if err := a.stream(r.Context(), all); err != nil {
			a.fail(r, err)
		}
		return nil, nil
	}
	if err := s.Run(r.Context(), all, a.add); err != nil {
		return nil, err
	}
	return a.final(w), nil
}

func (s *API) newResponsesAnswer(w http.ResponseWriter, r *http.Request) (*responsesAnswer, []serving.Job, error) {
	var q responsesRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, nil, err
	}
	k, err := s.keeping(r, &q)
	if err != nil {
		return nil, nil, err
	}
	if err := q.checkBackground(w, k); err != nil {
		return nil, nil, err
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
	if len(q.leftOut) > 0 {
		w.Header().Set(leftOutHeader, strings.Join(q.leftOut, ", "))
	}
	id := w.Header().Get("X-Request-Id")
	if k != nil {
		id = strings.TrimPrefix(k.id, responsePrefix)
	}
	a := &responsesAnswer{ChatAnswer: NewChatAnswer(s.Service, c, id, o, all), asked: &q, responder: s.Responder, keeper: k}
	switch {
	case q.Stream && q.Background:
		a.log = newEventLog()
	case q.Stream:
		a.out = api.NewStream(w)
	}
	return a, all, nil
}

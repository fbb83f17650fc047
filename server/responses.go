package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// responsesRequest is the body of POST /v1/responses. Nothing is kept between requests: the whole conversation comes with
// each. It is turned into a chat request.
type responsesRequest struct {
	Model        string             `json:"model"`
	Input        json.RawMessage    `json:"input"` // a string or items
	Instructions string             `json:"instructions"`
	MaxTokens    *int               `json:"max_output_tokens"`
	Temperature  *float64           `json:"temperature"`
	TopP         *float64           `json:"top_p"`
	TopLogprobs  int                `json:"top_logprobs"`
	Include      []string           `json:"include"`
	Stream       bool               `json:"stream"`
	Tools        []json.RawMessage  `json:"tools"`
	ToolChoice   json.RawMessage    `json:"tool_choice"`
	Parallel     *bool              `json:"parallel_tool_calls"`
	Metadata     map[string]string  `json:"metadata"` // the client's labels, sent back
	Reasoning    responsesReasoning `json:"reasoning"`
	Text         struct {
		Format    json.RawMessage `json:"format"`
		Verbosity string          `json:"verbosity"`
	} `json:"text"`
}

type responsesReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// logprobsOfText is the one thing that include can ask for.
const logprobsOfText = "message.output_text.logprobs"

// responsesRefusals are the fields that are not done. Most would need what came before to be kept.
var responsesRefusals = map[string]refusal{
	"store":                {"false", "nothing is kept between requests; set it to false and send the whole conversation as input"},
	"previous_response_id": {`""`, "nothing is kept between requests; send the whole conversation as input"},
	"conversation":         {"", "nothing is kept between requests; send the whole conversation as input"},
	"background":           {"false", "an answer lives as long as its request; for work without a client there is /v1/batches"},
	"prompt":               {"", "no prompts are kept here; send instructions and input"},
	"truncation":           {`"disabled"`, "conversations are never cut; shorten yours"},
	"max_tool_calls":       {"", "tools are called by the client, who can count"},
	"service_tier":         {`"auto" "default"`, "there is one tier"},
	"context_management":   {"[]", "conversations are never cut; shorten yours"},
}

func (q *responsesRequest) refuses() map[string]refusal { return responsesRefusals }

// chat is the same request in the words of chat completions.
func (q *responsesRequest) chat() (*chatRequest, error) {
	for _, name := range q.Include {
		if name != logprobsOfText {
			return nil, bad("include", "include has %q; %s is all that can be asked for", name, logprobsOfText)
		}
	}
	if q.Text.Verbosity != "" && q.Text.Verbosity != "medium" {
		return nil, bad("text.verbosity", "text.verbosity is %q; say in the instructions how long answers should be", q.Text.Verbosity)
	}
	if q.MaxTokens != nil && *q.MaxTokens < 1 {
		return nil, bad("max_output_tokens", "max_output_tokens is %d; it must be 1 or more", *q.MaxTokens)
	}
	c := &chatRequest{sampling: sampling{Model: q.Model, Stream: q.Stream, MaxTokens: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP}}
	c.Logprobs, c.TopLogprobs = q.TopLogprobs > 0 || slices.Contains(q.Include, logprobsOfText), q.TopLogprobs
	set(&c.ReasoningEffort, q.Reasoning.Effort)
	if q.Instructions != "" {
		c.Messages = append(c.Messages, chatMessage{Role: "system", Content: quoted(q.Instructions)})
	}
	if err := q.messages(c); err != nil {
		return nil, err
	}
	if err := q.offer(c); err != nil {
		return nil, err
	}
	return c, q.format(c)
}

// offer puts the tools, which lie flat here, into chat's words.
func (q *responsesRequest) offer(c *chatRequest) error {
	c.fields, c.Parallel, c.ToolChoice = toolFields{"tools[%d].name", "tools[%d].parameters"}, q.Parallel, q.ToolChoice
	for i, raw := range q.Tools {
		var t struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &t) != nil || t.Type != "function" {
			return bad(fmt.Sprintf("tools[%d].type", i), "tools[%d].type is %q; only function is supported", i, t.Type)
		}
		c.Tools = append(c.Tools, fmt.Appendf(nil, `{"type": "function", "function": %s}`, raw))
	}
	var named struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if json.Unmarshal(q.ToolChoice, &named) == nil && named.Type == "function" {
		c.ToolChoice = fmt.Appendf(nil, `{"type": "function", "function": {"name": %s}}`, quoted(named.Name))
	}
	return nil
}

// format reads text.format: {"type": "json_schema", "name": …, "schema": …}.
func (q *responsesRequest) format(c *chatRequest) error {
	if !present(q.Text.Format) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(q.Text.Format, &f) != nil {
		return bad("text.format", `text.format should be {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "name": …, "schema": …}`)
	}
	switch f.Type {
	case "text":
	case "json_object":
		c.ResponseFormat = json.RawMessage(`{"type": "json_object"}`)
	case "json_schema":
		if !present(f.Schema) {
			return bad("text.format.schema", "text.format.schema is missing")
		}
		c.GuidedJSON, c.jsonField = f.Schema, "text.format.schema"
	default:
		return bad("text.format.type", "text.format.type is %q; text, json_object and json_schema are possible", f.Type)
	}
	return nil
}

// responses is POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) (any, error) {
	a, all, err := s.newResponsesAnswer(w, r)
	if err != nil {
		return nil, err
	}
	if a.asked.Stream {
		if err := a.stream(r.Context(), all); err != nil {
			a.fail(r, err)
		}
		return nil, nil
	}
	if err := s.run(r.Context(), all, a.add); err != nil {
		return nil, err
	}
	return a.response(a.status()), nil
}

func (s *Server) newResponsesAnswer(w http.ResponseWriter, r *http.Request) (*responsesAnswer, []job, error) {
	var q responsesRequest
	if err := decode(w, r, &q); err != nil {
		return nil, nil, err
	}
	c, err := q.chat()
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkChat(s); err != nil {
		return nil, nil, err
	}
	all, o, err := c.job(r.Context(), s)
	if err != nil {
		return nil, nil, err
	}
	a := &responsesAnswer{chatAnswer: newChatAnswer(s, c, w.Header().Get("X-Request-Id"), o, all), asked: &q}
	if q.Stream {
		a.out = newStream(w)
	}
	return a, all, nil
}

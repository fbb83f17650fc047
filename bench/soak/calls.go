package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// object is a JSON object to send.
type object = map[string]any

// call is a kind of call.
type call struct {
	name, path string
	weight     int
	body       func(*client) object
	status     int                        // what it is answered with; 0: 200
	check      func(object, []byte) error // of an answer that is not streamed; nil: it is JSON
	stream     func(string) error         // of a streamed answer; nil: never streamed
	do         func(*client) error        // a call of more than one request, in place of all but the name
}

var calls = []call{
	{name: "completion", path: "/v1/completions", weight: 16, stream: done, check: choices, body: func(c *client) object {
		return object{"model": c.name(), "prompt": c.prompt(100), "max_tokens": 1 + c.rng.IntN(40), "seed": c.rng.IntN(1000)}
	}},
	{name: "long completion", path: "/v1/completions", weight: 4, stream: done, check: choices, body: func(c *client) object {
		return object{"model": c.name(), "prompt": c.prompt(20), "max_tokens": 400, "ignore_eos": true}
	}},
	{name: "long prompt", path: "/v1/completions", weight: 3, stream: done, check: choices, body: func(c *client) object {
		return object{"prompt": c.prompt(900), "max_tokens": 8}
	}},
	{name: "chat", path: "/v1/chat/completions", weight: 16, stream: done, check: choices, body: func(c *client) object { return c.chat(60) }},
	{name: "chat, several choices", path: "/v1/chat/completions", weight: 3, stream: done, check: choices, body: func(c *client) object {
		return with(c.chat(20), object{"n": 1 + c.rng.IntN(6), "logprobs": true, "top_logprobs": c.rng.IntN(20), "stop": []string{"fox", "\n\n"}, "logit_bias": object{"17": -5}})
	}},
	{name: "chat, JSON schema", path: "/v1/chat/completions", weight: 6, stream: done, check: holdsJSON, body: func(c *client) object {
		return with(c.chat(60), object{"max_tokens": 200, "response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": c.schema()}}})
	}},
	{name: "chat, regular expression", path: "/v1/chat/completions", weight: 4, stream: done, check: matches, body: func(c *client) object {
		return with(c.chat(60), object{"guided_regex": fmt.Sprintf("[a-z]{%d,%d}-[0-9]{1,5}", 1+c.rng.IntN(8), 9+c.rng.IntN(20))})
	}},
	{name: "chat, tools", path: "/v1/chat/completions", weight: 4, stream: done, check: choices, body: func(c *client) object {
		return with(c.chat(100), object{"tool_choice": "required", "tools": []object{{"type": "function", "function": object{"name": "look_up", "parameters": c.schema()}}}})
	}},
	{name: "responses", path: "/v1/responses", weight: 3, stream: ends(`"response.`), body: func(c *client) object {
		return object{"input": c.prompt(50), "max_output_tokens": 1 + c.rng.IntN(40), "store": false}
	}},
	{name: "messages", path: "/v1/messages", weight: 3, stream: ends(`"message_stop"`), body: func(c *client) object {
		return object{"model": c.name(), "max_tokens": 1 + c.rng.IntN(40), "messages": []object{{"role": "user", "content": c.prompt(50)}}}
	}},
	{name: "Ollama's chat", path: "/api/chat", weight: 3, stream: lines, body: func(c *client) object {
		return object{"model": c.name(), "messages": []object{{"role": "user", "content": c.prompt(50)}}, "options": object{"num_predict": 1 + c.rng.IntN(40)}}
	}},
	{name: "embeddings", path: "/v1/embeddings", weight: 3, body: func(c *client) object { return object{"input": []string{c.prompt(50), c.prompt(200)}} }},
	{name: "tokenize", path: "/tokenize", weight: 2, body: func(c *client) object { return object{"prompt": c.prompt(500)} }},
	{name: "too long", path: "/v1/completions", weight: 1, status: 400, body: func(c *client) object {
		return object{"prompt": strings.Repeat("too long ", 100_000), "max_tokens": 5}
	}},
	{name: "bad schema", path: "/v1/chat/completions", weight: 1, status: 400, body: func(c *client) object {
		return with(c.chat(10), object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": object{"type": c.prompt(3)}}}})
	}},
}

// with is a body with more fields, or others.
func with(body, more object) object {
	for k, v := range more {
		body[k] = v
	}
	return body
}

// name is the model or one of its adapters.
func (c *client) name() string { return c.models[c.rng.IntN(len(c.models))] }

func (c *client) chat(tokens int) object {
	return object{"model": c.name(), "messages": []object{{"role": "user", "content": c.prompt(80)}}, "max_tokens": 1 + c.rng.IntN(tokens)}
}

// schema is one of many JSON schemas, so that some grammars are compiled anew and others are in the cache.
func (c *client) schema() object {
	fields := object{}
	for i := range 1 + c.rng.IntN(6) {
		kinds := []object{{"type": "integer"}, {"type": "string", "maxLength": 5 + c.rng.IntN(10)}, {"type": "boolean"}, {"enum": []string{"red", "green", fmt.Sprint("blue", c.rng.IntN(50))}},
			{"type": "array", "items": object{"type": "integer"}, "maxItems": 3}}
		fields[fmt.Sprint(words[c.rng.IntN(len(words))], i)] = kinds[c.rng.IntN(len(kinds))]
	}
	return object{"type": "object", "properties": fields, "additionalProperties": false}
}

// reply is what answers have in common.
type reply struct {
	Choices []struct {
		Text         string
		Message      struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
}

// choices checks that there are as many choices as were asked for, all of them finished.
func choices(body object, answer []byte) error {
	var r reply
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	n, ok := body["n"].(int)
	if !ok {
		n = 1
	}
	if len(r.Choices) != n {
		return fmt.Errorf("%d choices, not %d: %.300s", len(r.Choices), n, answer)
	}
	for _, c := range r.Choices {
		if c.FinishReason == "" {
			return fmt.Errorf("a choice is not finished: %.300s", answer)
		}
	}
	return nil
}

// holdsJSON checks that the message is a JSON object, unless it was cut by its length.
func holdsJSON(body object, answer []byte) error {
	if err := choices(body, answer); err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	if c := r.Choices[0]; c.FinishReason == "stop" && !json.Valid([]byte(c.Message.Content)) {
		return fmt.Errorf("the message is no JSON: %.300s", c.Message.Content)
	}
	return nil
}

// matches checks that the message is in the body's regular expression, unless it was cut by its length.
func matches(body object, answer []byte) error {
	if err := choices(body, answer); err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	expression := "^(?:" + body["guided_regex"].(string) + ")$"
	if c := r.Choices[0]; c.FinishReason == "stop" && !regexp.MustCompile(expression).MatchString(c.Message.Content) {
		return fmt.Errorf("the message %.300q is not in %s", c.Message.Content, expression)
	}
	return nil
}

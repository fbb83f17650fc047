package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// hostile is a request that is as costly as one can be, of one kind.
type hostile struct {
	name, path string
	body       any
	slow       bool // the client hardly reads
}

// another stands in a body for a text that is another in every request, so that nothing is cached.
const another = "ANOTHER"

// plain is what a request costs that is not hostile.
var plain = hostile{name: "a plain request", path: "/v1/completions", body: object{"prompt": "Once " + another, "max_tokens": 60}}

var hostiles = []hostile{
	{"a grammar that explodes", "/v1/chat/completions", chatWith(object{"guided_regex": "(a|b)*a(a|b){40,4000}" + another}), false},
	{"a schema of 2,000 fields", "/v1/chat/completions", chatWith(object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": manyFields()}}}), false},
	{"a prompt of 100,000 tokens", "/v1/completions", object{"prompt": strings.Repeat("page table ", 50_000) + another, "max_tokens": 4}, false},
	{"a prompt of the whole context", "/v1/completions", object{"prompt": another + strings.Repeat(" the fox", 950), "max_tokens": 4}, false},
	{"128 answers", "/v1/completions", object{"prompt": another, "max_tokens": 40, "n": 128}, false},
	{"10,000 stop strings", "/v1/completions", object{"prompt": "Once", "max_tokens": 60, "stop": manyStops(10_000)}, false},
	{"64 stop strings", "/v1/completions", object{"prompt": "Once", "max_tokens": 60, "stop": manyStops(64)}, false},
	{"biases of 100,000 tokens", "/v1/completions", object{"prompt": "Once", "max_tokens": 60, "logit_bias": manyBiases(100_000)}, false},
	{"20 log-probabilities a token", "/v1/chat/completions", chatWith(object{"logprobs": true, "top_logprobs": 20}), false},
	{"JSON nested 9,000 deep", "/v1/chat/completions", nested(9_000), false},
	{"JSON nested 100,000 deep", "/v1/chat/completions", nested(100_000), false},
	{"a reader of one byte a second", "/v1/completions", object{"prompt": "Once", "max_tokens": 400, "stream": true, "ignore_eos": true}, true},
}

func chatWith(more object) object {
	return with(object{"messages": []object{{"role": "user", "content": "Hello " + another}}, "max_tokens": 60}, more)
}

func manyFields() object {
	fields := object{}
	for i := range 2000 {
		fields[fmt.Sprint("field", i, another)] = object{"type": "string", "pattern": "^[a-z]{1,20}$"}
	}
	return object{"type": "object", "properties": fields}
}

func manyStops(n int) (stops []string) {
	for i := range n {
		stops = append(stops, fmt.Sprint("stop", i))
	}
	return stops
}

func manyBiases(n int) object {
	bias := object{}
	for i := range n {
		bias[fmt.Sprint(i)] = 0.5
	}
	return bias
}

// nested is a chat with an argument of arrays in arrays. It is text and no value, since json.Marshal refuses what is so deep.
func nested(deep int) json.RawMessage {
	return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"Hello %s"}],"max_tokens":60,"chat_template_kwargs":{"x":%s%s}}`,
		another, strings.Repeat("[", deep), strings.Repeat("]", deep))
}

// text is the request's body, made beforehand: writing it must not take the processor from the server while that is measured.
func (h hostile) text() (template []byte, err error) {
	if raw, ok := h.body.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(h.body)
}

// next is a body that was not sent before.
func next(template []byte) []byte {
	return bytes.ReplaceAll(template, []byte(another), fmt.Append(nil, "n", time.Now().UnixNano()))
}

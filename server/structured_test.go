package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

const (
	person  = `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "sky": {"enum": ["sunny", "rainy"]}}, "required": ["name", "age"], "additionalProperties": false}`
	weather = `{"type": "function", "function": {"name": "get_weather", "description": "Current weather in a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}`
	adding  = `{"type": "function", "function": {"name": "add", "description": "Add two numbers", "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}`
)

// valid checks a JSON text against a schema.
func valid(t *testing.T, schema, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// said is an answer's text and calls, from a whole answer or put together from a stream's deltas.
type said struct {
	text, finish string
	calls        []call
}

type call struct{ ID, Name, Arguments string }

// ask sends a chat request of the built-in model and returns what it says; the same streamed has to be the same.
func ask(t *testing.T, post func(path, body string) (int, string), user, more string) said {
	t.Helper()
	type toolCall struct {
		Index    int
		ID, Type string
		Function struct{ Name, Arguments string }
	}
	var whole struct {
		Choices []struct {
			Message struct {
				Content string
				Calls   []toolCall `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
	}
	body := fmt.Sprintf(`{"messages": [{"role": "user", "content": %q}], "temperature": 0, "max_tokens": 200, %s`, user, more)
	status, text := post("/v1/chat/completions", body+"}")
	if status != 200 {
		t.Fatalf("%s: %d %s", more, status, text)
	}
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	one := said{text: whole.Choices[0].Message.Content, finish: whole.Choices[0].Finish}
	for _, c := range whole.Choices[0].Message.Calls {
		one.calls = append(one.calls, call{"", c.Function.Name, c.Function.Arguments})
	}
	var streamed said
	_, text = post("/v1/chat/completions", body+`, "stream": true}`)
	for line := range strings.SplitSeq(text, "\n") {
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string
					Calls   []toolCall `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, c := range chunk.Choices {
			streamed.text += c.Delta.Content
			streamed.finish += c.Finish
			for _, d := range c.Delta.Calls {
				if d.Index == len(streamed.calls) {
					if d.ID == "" || d.Type != "function" || d.Function.Name == "" {
						t.Errorf("a call begins with %+v", d)
					}
					streamed.calls = append(streamed.calls, call{})
				}
				streamed.calls[d.Index].Name += d.Function.Name
				streamed.calls[d.Index].Arguments += d.Function.Arguments
			}
		}
	}
	if fmt.Sprint(streamed) != fmt.Sprint(one) {
		t.Errorf("%s: streamed\n%+v\nwhole\n%+v", more, streamed, one)
	}
	return one
}

// TestStructured: whatever words ask for it, the answer satisfies the schema, streamed and whole.
func TestStructured(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	send := func(path, body string) (int, string) { return post(t, h, path, body) }
	const user = "Ada is 36 years old. Answer in JSON with the keys name and age."
	for _, more := range []string{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": ` + person + `, "strict": true}}`,
		`"response_format": {"type": "json_object", "schema": ` + person + `}`,
		`"guided_json": ` + person,
		`"structured_outputs": {"json": ` + person + `, "regex": null}, "temperature": 1.5`,
	} {
		a := ask(t, send, user, more+`, "seed": 5`)
		if valid(t, person, a.text); a.finish != "stop" {
			t.Errorf("%s: it ended by %s", more, a.finish)
		}
	}
	valid(t, `{"type": "object"}`, ask(t, send, user, `"response_format": {"type": "json_object"}`).text)
	if a := ask(t, send, "What is the opposite of no?", `"structured_outputs": {"choice": ["yes", "perhaps"]}`); a.text != "yes" && a.text != "perhaps" {
		t.Errorf("a choice gives %q", a.text)
	}
	if a := ask(t, send, "Hi", `"response_format": {"type": "text"}`); a.text == "" {
		t.Error("text is empty")
	}
	_, text := send("/v1/completions", `{"prompt": "JSON:", "temperature": 0, "max_tokens": 100, "guided_json": `+person+`}`)
	valid(t, person, parse(t, text).Choices[0].Text)

	for path, body := range map[string]string{
		"/api/chat":     `{"stream": false, "messages": [{"role": "user", "content": "Ada is 36."}], "format": ` + person + `}`,
		"/api/generate": `{"stream": false, "prompt": "Ada is 36.", "format": ` + person + `}`,
	} {
		var a struct {
			Response string
			Message  struct{ Content string }
		}
		if _, text := send(path, body); json.Unmarshal([]byte(text), &a) != nil {
			t.Fatal(text)
		}
		valid(t, person, a.Response+a.Message.Content)
	}
	status, text := send("/v1/messages", `{"max_tokens": 200, "messages": [{"role": "user", "content": "Ada is 36."}], "output_config": {"format": {"type": "json_schema", "schema": `+person+`}}}`)
	var m struct{ Content []struct{ Text string } }
	if json.Unmarshal([]byte(text), &m) != nil || status != 200 || len(m.Content) != 1 {
		t.Fatalf("%d %s", status, text)
	}
	valid(t, person, m.Content[0].Text)
}

// TestToolChoice: a call that is required comes, in the form of its schema, and none where none may.
func TestToolChoice(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	send := func(path, body string) (int, string) { return post(t, h, path, body) }
	const tools, user = `"tools": [` + weather + `, ` + adding + `]`, "What is the weather in Paris?"
	check := func(what string, a said, name string, most int) {
		t.Helper()
		if len(a.calls) == 0 || len(a.calls) > most || a.finish != "tool_calls" || a.calls[0].Name != name {
			t.Errorf("%s: %+v", what, a)
		}
		for _, c := range a.calls {
			schema := map[string]string{"get_weather": weather, "add": adding}[c.Name]
			var tool struct {
				Function struct{ Parameters json.RawMessage }
			}
			if err := json.Unmarshal([]byte(schema), &tool); err != nil {
				t.Fatal(err)
			}
			valid(t, string(tool.Function.Parameters), c.Arguments)
		}
	}
	a := ask(t, send, user, tools)
	if check("auto", a, "get_weather", 1); len(a.calls) == 1 && a.calls[0].Arguments != `{"city": "Paris"}` {
		t.Errorf("the built-in model calls %+v", a.calls)
	}
	check("required", ask(t, send, "Tell me a story.", tools+`, "tool_choice": "required", "parallel_tool_calls": false`), "get_weather", 1)
	check("required, hot", ask(t, send, user, tools+`, "tool_choice": "required", "temperature": 2, "seed": 1, "top_k": 0, "top_p": 1, "max_tokens": 1500`), "get_weather", 100)
	check("named", ask(t, send, user, tools+`, "tool_choice": {"type": "function", "function": {"name": "add"}}, "parallel_tool_calls": false`), "add", 1)
	check("allowed", ask(t, send, user, tools+`, "parallel_tool_calls": false, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "add"}}]}}`), "add", 1)
	strict := strings.Replace(tools, `"name": "get_weather"`, `"name": "get_weather", "strict": true`, 1)
	check("strict", ask(t, send, user, strict), "get_weather", 1)
	if a := ask(t, send, "Hello", strict); len(a.calls) > 0 || a.text == "" || a.finish != "stop" {
		t.Errorf("strict, but nothing to call: %+v", a)
	}
	if a := ask(t, send, user, tools+`, "tool_choice": "none"`); len(a.calls) > 0 {
		t.Errorf("none: %+v", a)
	}

	status, text := send("/v1/messages", `{"max_tokens": 200, "messages": [{"role": "user", "content": "Add 2 and 3."}], "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
		"tools": [{"name": "add", "description": "Add two numbers", "input_schema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}]}`)
	var m struct {
		Stop    string `json:"stop_reason"`
		Content []struct {
			Type, Name string
			Input      map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || status != 200 || m.Stop != "tool_use" || len(m.Content) != 1 || m.Content[0].Name != "add" || len(m.Content[0].Input) != 2 {
		t.Errorf("%v %d %s", err, status, text)
	}
}

// TestStructuredRefusals: what cannot be enforced is refused, with the field's name, in each API's shape.
func TestStructuredRefusals(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 256}, server.Options{})
	const user = `{"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], `
	bomb := `{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [` + strings.Repeat(`{"anyOf": [{"type": "string"}, {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}}]}, `, 30) + `true]}}}`
	tool := func(function string) string {
		return user + `"tool_choice": "required", "tools": [{"type": "function", "function": ` + function + `}]}`
	}
	for _, c := range []struct{ path, body, param, want string }{
		{"/v1/chat/completions", user + `"response_format": "json"}`, "response_format", "should be"},
		{"/v1/chat/completions", user + `"response_format": {"type": "xml"}}`, "response_format.type", "xml"},
		{"/v1/chat/completions", user + `"response_format": {"type": "json_schema"}}`, "response_format.json_schema", "missing"},
		{"/v1/chat/completions", user + `"response_format": {"type": "json_schema", "json_schema": {"strict": true, "schema": {"properties": {"a": {"format": "colour"}}}}}}`, "response_format", `#/properties/a/format: the format "colour" is not supported`},
		{"/v1/chat/completions", user + `"guided_json": ` + bomb + `}`, "guided_json", ""},
		{"/v1/chat/completions", user + `"guided_json": "{"}`, "guided_json", "not the text of a JSON schema"},
		{"/v1/chat/completions", user + `"guided_json": {}, "guided_regex": "a"}`, "guided_regex", "both"},
		{"/v1/chat/completions", user + `"structured_outputs": {"structural_tag": "x"}}`, "structured_outputs.structural_tag", "not supported"},
		{"/v1/chat/completions", user + `"structured_outputs": {"regex": 5}}`, "structured_outputs.regex", "5"},
		{"/v1/chat/completions", user + `"structured_outputs": {}}`, "structured_outputs", "0 constraints"},
		{"/v1/completions", `{"prompt": "x", "guided_json": {"type": "objekt"}}`, "guided_json", `"objekt" is not a type`},
		{"/v1/chat/completions", user + `"tools": [{"type": "function", "function": {"parameters": {}}}]}`, "tools[0].function.name", "missing"},
		{"/v1/chat/completions", user + `"tools": [{"type": "function", "function": {"name": "a b"}}]}`, "tools[0].function.name", "letters"},
		{"/v1/chat/completions", user + `"tools": [{"type": "web_search"}]}`, "tools[0].type", "web_search"},
		{"/v1/chat/completions", user + `"tools": [5]}`, "tools[0]", "should be"},
		{"/v1/chat/completions", user + `"tools": [` + weather + `, ` + weather + `]}`, "tools[1].function.name", "another tool"},
		{"/v1/chat/completions", tool(`{"name": "f", "parameters": [1]}`), "tools[0].function.parameters", "not a JSON object"},
		{"/v1/chat/completions", tool(`{"name": "f", "parameters": {"type": "string"}}`), "tools[0].function.parameters", `"string"`},
		{"/v1/chat/completions", tool(`{"name": "f", "parameters": {"type": "object", "properties": {"a": {"format": "colour"}}}, "strict": true}`), "tools[0].function.parameters", `the format "colour" is not supported`},
		{"/v1/chat/completions", user + `"tool_choice": "required"}`, "tool_choice", "no tools"},
		{"/v1/chat/completions", user + `"tool_choice": "always"}`, "tool_choice", "always"},
		{"/v1/chat/completions", user + `"tools": [` + weather + `], "tool_choice": {"type": "function", "function": {"name": "g"}}}`, "tool_choice.function.name", `"g"`},
		{"/v1/messages", user + `"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"format": "colour"}}}, "strict": true}]}`, "", `tools[0].input_schema: schema at #/properties/a`},
		{"/v1/messages", user + `"tools": [{"name": "f"}]}`, "", "tools[0].input_schema is missing"},
		{"/v1/messages", user + `"tools": [{"type": "bash_20250124", "name": "bash"}]}`, "", "bash_20250124"},
		{"/v1/messages", user + `"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "g"}}`, "", `"g"`},
		{"/api/chat", `{"messages": [{"role": "user", "content": "x"}], "format": "xml"}`, "", "format is"},
		{"/api/chat", `{"messages": [{"role": "user", "content": "x"}], "format": {"type": "strin"}}`, "", "format: schema at #"},
	} {
		status, text := post(t, h, c.path, c.body)
		if status != 400 || !strings.Contains(text, strings.Trim(string(quote(c.want)), `"`)) {
			t.Errorf("%s %.300s: %d %.500s; it should say %q", c.path, c.body, status, text, c.want)
		} else if c.path == "/v1/chat/completions" {
			if a := parse(t, text); a.Error.Param != c.param {
				t.Errorf("%.300s: %s; the field is %s", c.body, text, c.param)
			}
		}
	}
}

// quote is a text as encoding/json writes it.
func quote(s string) []byte {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(s)
	return bytes.TrimSpace(b.Bytes())
}

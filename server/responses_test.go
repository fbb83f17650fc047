package server_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// response is what the tests look at of a response or an event.
type response struct {
	Type     string
	Number   int `json:"sequence_number"`
	Index    int `json:"output_index"`
	ItemID   string
	Delta    string
	Logprobs []json.RawMessage
	Response *response
	Status   string
	Output   []struct {
		ID, Type, Role, Status, Name, Arguments string
		Content                                 []struct {
			Type, Text string
			Logprobs   []json.RawMessage
		}
	}
	Incomplete *struct{ Reason string } `json:"incomplete_details"`
	Usage      *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
	Instructions string
	Metadata     map[string]string
}

func respond(t *testing.T, text string) (r response) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// TestResponses: the same request, whole and streamed, says the same as the chat it stands for.
func TestResponses(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"model": "demo", "instructions": "Be brief.", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Tell me a story about a fox named Pip"}]}],
		"temperature": 0, "max_output_tokens": 20, "store": false, "metadata": {"a": "b"}, "include": ["message.output_text.logprobs"]`
	_, text := post(t, h, "/v1/chat/completions", `{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me a story about a fox named Pip"}], "temperature": 0, "max_tokens": 20}`)
	want := parse(t, text)

	status, text := post(t, h, "/v1/responses", body+`}`)
	r := respond(t, text)
	if status != 200 || r.Status != "incomplete" || r.Incomplete.Reason != "max_output_tokens" || len(r.Output) != 1 || r.Instructions != "Be brief." || r.Metadata["a"] != "b" {
		t.Fatalf("%d %s", status, text)
	}
	m := r.Output[0]
	if m.Type != "message" || m.Role != "assistant" || m.Status != "incomplete" || m.Content[0].Text != want.Choices[0].Message.Content || len(m.Content[0].Logprobs) != 20 {
		t.Errorf("%+v; chat says %q", m, want.Choices[0].Message.Content)
	}
	if u := r.Usage; u.Input != want.Usage.Prompt || u.Output != 20 || u.Total != u.Input+20 {
		t.Errorf("usage %+v", *u)
	}

	_, text = post(t, h, "/v1/responses", body+`, "stream": true}`)
	var kinds []string
	streamed, logprobs := "", 0
	last := response{}
	for line := range strings.SplitSeq(text, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		e := respond(t, data)
		if e.Number != len(kinds) || !strings.Contains(text, "event: "+e.Type+"\ndata: ") {
			t.Errorf("event %d has number %d and type %s", len(kinds), e.Number, e.Type)
		}
		if kinds = append(kinds, e.Type); e.Type == "response.output_text.delta" {
			streamed, logprobs = streamed+e.Delta, logprobs+len(e.Logprobs)
		}
		last = e
	}
	if logprobs != 20 || len(last.Response.Output[0].Content[0].Logprobs) != 20 {
		t.Errorf("the deltas have %d log-probabilities and the end %d of 20 tokens", logprobs, len(last.Response.Output[0].Content[0].Logprobs))
	}
	if streamed != m.Content[0].Text || last.Response == nil || last.Response.Output[0].Content[0].Text != streamed || last.Type != "response.incomplete" {
		t.Errorf("the stream says %q and ends with %+v", streamed, last)
	}
	order := strings.Join(kinds, " ")
	order = strings.ReplaceAll(order, strings.Repeat(" response.output_text.delta", strings.Count(order, "output_text.delta")), " deltas")
	if order != "response.created response.in_progress response.output_item.added response.content_part.added deltas response.output_text.done response.content_part.done response.output_item.done response.incomplete" {
		t.Error(order)
	}
}

// TestResponsesInput: items become the conversation that chat has for them.
func TestResponsesInput(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	_, text := post(t, h, "/v1/responses", `{"input": "Who are you?", "temperature": 0}`)
	first := respond(t, text)
	if first.Status != "completed" || !strings.Contains(first.Output[0].Content[0].Text, "demo model") {
		t.Fatal(text)
	}
	var raw struct{ Output []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	_, text = post(t, h, "/v1/responses", `{"temperature": 0, "max_output_tokens": 12, "input": [{"role": "user", "content": "Who are you?"}, `+string(raw.Output[0])+`, {"type": "message", "role": "user", "content": "Tell me a story."}]}`)
	second := respond(t, text)
	if second.Usage == nil || second.Usage.Input <= first.Usage.Input+first.Usage.Output {
		t.Errorf("%s", text)
	}
	for body, want := range map[string]string{
		`{}`:                            "input is missing",
		`{"input": 7}`:                  "input should be",
		`{"input": "x", "store": true}`: "store is true and nothing is kept",
		`{"input": "x", "previous_response_id": "resp_1"}`:                             "previous_response_id is \"resp_1\" and nothing is kept",
		`{"input": "x", "conversation": "conv_1"}`:                                     "nothing is kept between requests",
		`{"input": "x", "background": true}`:                                           "background needs a response that is kept",
		`{"input": "x", "max_output_tokens": 0}`:                                       "max_output_tokens is 0",
		`{"input": "x", "include": ["file_search_call.results"]}`:                      "include has",
		`{"input": [{"type": "reasoning", "encrypted_content": "gAAA"}]}`:              "input[0].encrypted_content was not made by this server",
		`{"input": [{"type": "computer_call"}]}`:                                       "input[0].type is",
		`{"input": [{"role": "user", "content": [{"type": "input_image"}]}]}`:          "input[0].content has a part",
		`{"input": "x", "tools": [{"type": "code_interpreter"}]}`:                      "tools[0].type is",
		`{"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}`: "tools[0].type is",
		`{"input": "x", "tools": [{"type": "namespace", "tools": []}]}`:                "tools[0].name is missing",
		`{"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]}]}`: "tools[0].tools[1].type is",
		`{"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": 7}]}]}`:                 "tools[0].tools[0].parameters should",
		`{"input": "x", "tools": [{"type": "function"}]}`:                       "tools[0].name is missing",
		`{"input": "x", "text": {"format": {"type": "json_schema"}}}`:           "text.format.schema is missing",
		`{"input": "x", "text": {"format": {"type": "xml"}}}`:                   "text.format.type is",
		`{"input": "x", "text": {"verbosity": "high"}}`:                         "text.verbosity is",
		`{"input": [{"role": "king", "content": "x"}], "temperature": 0}`:       "role",
		`{"input": "x", "model": "gpt-5"}`:                                      "no model",
		`{"input": "x", "tool_choice": {"type": "function", "name": "absent"}}`: "absent",
	} {
		status, text := post(t, h, "/v1/responses", body)
		if a := parse(t, text); status/100 != 4 || !strings.Contains(a.Error.Message, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestResponsesJSON: text.format holds the answer to a schema.
func TestResponsesJSON(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	_, text := post(t, h, "/v1/responses", `{"input": "A fox?", "temperature": 0, "text": {"format": {"type": "json_schema", "name": "yes", "strict": true,
		"schema": {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": false}}}}`)
	r := respond(t, text)
	var v struct{ Yes *bool }
	if r.Status != "completed" || json.Unmarshal([]byte(r.Output[0].Content[0].Text), &v) != nil || v.Yes == nil {
		t.Error(text)
	}
}

// TestResponsesAgents: what agents send with every request: tools in namespaces, a search of the web, reasoning that they keep themselves.
func TestResponsesAgents(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const tools = `"tools": [{"type": "function", "name": "close", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}},
		{"type": "namespace", "name": "agents", "description": "d", "tools": [{"type": "function", "name": "close", "strict": true, "parameters": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["id"], "additionalProperties": false}}]},
		{"type": "web_search", "external_web_access": false}]`
	const call = `"tool_choice": {"type": "function", "namespace": "agents", "name": "close"}`
	ask := func(body string) (*http.Response, string) {
		t.Helper()
		r, err := http.Post(h.URL+"/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%d %v %s", r.StatusCode, err, text)
		}
		return r, string(text)
	}
	r, _ := ask(`{"input": "x", "max_output_tokens": 1, "include": ["reasoning.encrypted_content"], ` + tools + `}`)
	if got := r.Header.Get("X-Ridge-Left-Out"); got != "tools[2] (web_search)" {
		t.Errorf("left out is %q", got)
	}
	functions := strings.Split(tools, `,
		{"type": "web`)[0] + "], "
	_, text := ask(`{"input": "x", "temperature": 0, ` + functions + call + `}`)
	var a struct {
		Output []struct{ Type, Name, Namespace, Arguments string }
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Output) != 1 || a.Output[0].Name != "close" || a.Output[0].Namespace != "agents" || !strings.Contains(a.Output[0].Arguments, `"id"`) {
		t.Errorf("%v %s", err, text)
	}
	// The same conversation by the texts, and as it comes back from a client.
	h, _ = start(t, ridge.Options{Template: "{% for m in messages %}{{ m.role }}:{{ m.reasoning_content or '' }}|{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}\n{% endfor %}"}, server.Options{})
	length := func(item string) int {
		t.Helper()
		_, text := ask(`{"max_output_tokens": 1, "input": [{"role": "user", "content": "x"}, ` + item + `, {"role": "user", "content": "y"}]}`)
		return respond(t, text).Usage.Input
	}
	if plain, sealed := length(`{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "seven"}]}`), length(`{"type": "reasoning", "summary": [], "content": null, "encrypted_content": "ridge:c2V2ZW4="}`); plain != sealed || plain <= length(`{"type": "reasoning", "summary": []}`) {
		t.Errorf("%d tokens with reasoning, %d with the reasoning that was kept", plain, sealed)
	}
	if spaced, flat := length(`{"type": "function_call", "call_id": "c", "namespace": "agents", "name": "close", "arguments": "{}"}`), length(`{"type": "function_call", "call_id": "c", "name": "agents__close", "arguments": "{}"}`); spaced != flat {
		t.Errorf("%d tokens for a call in a namespace, %d for the name that the model knows", spaced, flat)
	}
}

// TestResponsesNames: tools that the model would know by one name are refused, wherever they stand.
func TestResponsesNames(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	function := func(name string) string {
		return `{"type": "function", "name": "` + name + `", "parameters": {"type": "object"}}`
	}
	space := func(name, tool string) string {
		return `{"type": "namespace", "name": "` + name + `", "tools": [` + function(tool) + `]}`
	}
	for tools, want := range map[string]string{
		function("a__b") + "," + space("a", "b"):       `tools[0] is shown to the model as \"a__b\", and so is the tool \"b\" of the namespace \"a\"; rename one of them`,
		space("a", "b") + "," + function("a__b"):       `tools[1] is shown to the model`,
		space("a__b", "c") + "," + space("a", "b__c"):  `tools[1].tools[0] is shown to the model as \"a__b__c\"`,
		space("a", "b") + "," + space("a", "b"):        `tools[1].tools[0] is shown to the model as \"a__b\"`,
		space("a", "b") + "," + function("b"):          "",
		function("a_b") + "," + space("a", "b"):        "",
		function("close") + "," + space("agents", "x"): "",
	} {
		status, text := post(t, h, "/v1/responses", `{"input": "x", "max_output_tokens": 1, "tools": [`+tools+`]}`)
		if want == "" && status != 200 || want != "" && (status != 400 || !strings.Contains(text, want)) {
			t.Errorf("%s: %d %s; want %q", tools, status, text, want)
		}
	}
}

// TestResponsesSealed: reasoning that a client keeps itself comes with what it sends back, which says the same.
func TestResponsesSealed(t *testing.T) {
	h, _ := start(t, ridge.Options{Template: "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"}, server.Options{})
	for _, more := range []string{`, "include": ["reasoning.encrypted_content"]`, ""} {
		var a struct {
			Output []struct {
				Type    string
				Sealed  string `json:"encrypted_content"`
				Content []struct{ Text string }
			}
		}
		var status int
		var text string
		var err error
		for tries := 0; tries < 50 && len(a.Output) == 0; tries++ { // the model may end at once, which it was not taught to do after this
			status, text = post(t, h, "/v1/responses", `{"input": "Once upon a time", "temperature": 1.5, "max_output_tokens": 9`+more+`}`)
			err = json.Unmarshal([]byte(text), &a)
		}
		if err != nil || status != 200 || len(a.Output) == 0 || a.Output[0].Type != "reasoning" {
			t.Fatalf("%d %v %s", status, err, text)
		}
		want := ""
		if more != "" {
			want = "ridge:" + base64.StdEncoding.EncodeToString([]byte(a.Output[0].Content[0].Text))
		}
		if got := a.Output[0].Sealed; got != want {
			t.Errorf("%s: encrypted_content is %q, want %q", more, got, want)
		}
	}
}

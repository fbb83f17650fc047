package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestElementCalls: models that write calls as elements are held to the tools' schemas too, and what they write comes back as
// JSON that satisfies them, whole and streamed.
func TestElementCalls(t *testing.T) {
	const tool = `{"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {
		"city": {"type": "string", "maxLength": 12}, "nights": {"type": "integer", "minimum": 1, "maximum": 9}, "class": {"enum": ["first", "second"]},
		"with": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2}}, "required": ["city", "nights", "class", "with"]}}}`
	for _, template := range []string{"tools <tool_call> <function=", "tools <seed:tool_call>", "tools <tool_call> <arg_key>"} {
		h, _ := start(t, ridge.Options{Template: template + " {{ messages[0].content }}"}, server.Options{})
		for _, stream := range []string{"false", "true"} {
			status, text := post(t, h, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Book a room."}], "temperature": 0, "max_tokens": 200,
				"tools": [`+tool+`], "tool_choice": "required", "parallel_tool_calls": false, "stream": `+stream+`}`)
			if status != 200 {
				t.Fatalf("%s: %d %s", template, status, text)
			}
			name, arguments := calls(t, text, stream == "true")
			var got struct {
				City   string
				Nights int
				Class  string
				With   []string
			}
			d := json.NewDecoder(strings.NewReader(arguments))
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil || name != "book" || len([]rune(got.City)) > 12 || got.Nights < 1 || got.Nights > 9 || got.Class != "first" && got.Class != "second" || got.With == nil || len(got.With) > 2 {
				t.Errorf("%s: %s(%s) %v", template, name, arguments, err)
			}
		}
	}
}

// calls joins the name and the arguments of an answer's only call.
func calls(t *testing.T, text string, streamed bool) (name, arguments string) {
	t.Helper()
	type message struct {
		Calls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	bodies := []string{text}
	if streamed {
		bodies = nil
		for line := range strings.SplitSeq(text, "\n") {
			if data, ok := strings.CutPrefix(line, "data: {"); ok {
				bodies = append(bodies, "{"+data)
			}
		}
	}
	for _, body := range bodies {
		var a struct {
			Choices []struct{ Message, Delta message }
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		for _, c := range a.Choices {
			for _, call := range append(c.Message.Calls, c.Delta.Calls...) {
				name, arguments = name+call.Function.Name, arguments+call.Function.Arguments
			}
		}
	}
	return name, arguments
}

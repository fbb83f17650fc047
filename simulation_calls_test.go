package ridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// simCall is a request of which the answer is known.
type simCall struct {
	path, body string
	parts      func(answer string) (reply, error) // what the answer says; an error if it is not as answers of that API are
}

// reply is what an answer says.
type reply struct {
	text   string
	failed bool // a stream that ends with an error
}

// simCalls are the requests that clients make: every API, streamed and whole, of different prompts.
func simCalls() (all []simCall) {
	prompts := []string{"Once upon a time", "Once upon a time there was a fox", "What is a page table?",
		"The scheduler " + strings.Repeat("waits and ", 20), // two that part in the middle of a page of the cache
		"The scheduler " + strings.Repeat("waits and ", 11) + "runs and " + strings.Repeat("waits and ", 8)}
	for i, p := range prompts {
		n := 4 + 4*i
		all = append(all,
			simCall{"/v1/completions", fmt.Sprintf(`{"prompt": %q, "max_tokens": %d, "temperature": 0, "ignore_eos": true}`, p, n), wholeOf(1)},
			simCall{"/v1/completions", fmt.Sprintf(`{"prompt": %q, "max_tokens": %d, "temperature": 0, "ignore_eos": true, "stream": true}`, p, n), textStream},
			simCall{"/v1/chat/completions", fmt.Sprintf(`{"messages": [{"role": "user", "content": %q}], "max_tokens": %d, "temperature": 0}`, p, n), wholeOf(1)},
			simCall{"/v1/chat/completions", fmt.Sprintf(`{"messages": [{"role": "user", "content": %q}], "max_tokens": %d, "temperature": 0, "stream": true, "stream_options": {"include_usage": true}}`, p, n), chatStream},
		)
	}
	return append(all,
		simCall{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6, "n": 3, "temperature": 0}`, wholeOf(3)},
		simCall{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9, "temperature": 0, "guided_regex": "[a-z]{3,5}-[0-9]{2}"}`, wholeOf(1)},
		simCall{"/v1/messages", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 7, "temperature": 0, "stream": true}`, messagesStream},
		simCall{"/v1/responses", `{"input": "Hello", "max_output_tokens": 7, "temperature": 0, "store": false, "stream": true}`, responsesStream},
		simCall{"/api/generate", `{"prompt": "Hello", "options": {"num_predict": 8, "temperature": 0}}`, jsonLines},
		simCall{"/v1/embeddings", `{"input": ["Once upon", "a time"]}`, vectors},
		simCall{"/tokenize", `{"prompt": "Once upon a time"}`, same},
	)
}

// wholeOf takes an answer of n choices, all of them finished.
func wholeOf(n int) func(string) (reply, error) {
	return func(answer string) (r reply, err error) {
		var a struct {
			Choices []struct {
				Text    string
				Message struct{ Content string }
				Reason  string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			return r, err
		}
		if len(a.Choices) != n {
			return r, fmt.Errorf("%d choices, not %d", len(a.Choices), n)
		}
		for _, c := range a.Choices {
			if c.Reason == "" {
				return r, fmt.Errorf("a choice is not finished")
			}
			r.text += c.Text + c.Message.Content + "|" + c.Reason + "\n"
		}
		return r, nil
	}
}

func same(answer string) (reply, error) { return reply{text: answer}, nil }

// vectors takes embeddings as they are, without the id of the answer.
func vectors(answer string) (r reply, err error) {
	var a struct {
		Data []struct{ Embedding []float64 }
	}
	err = json.Unmarshal([]byte(answer), &a)
	return reply{text: fmt.Sprint(a.Data)}, err
}

// event is one event of a stream.
type event struct {
	name string
	data string
	json map[string]any // nil: it is no object
}

// events are the events of a stream, each of which must be whole: perhaps a name, then one line of data, then an empty line.
func events(answer string) (all []event, err error) {
	if !strings.HasSuffix(answer, "\n\n") {
		return nil, fmt.Errorf("the stream does not end with a whole event")
	}
	for _, text := range strings.Split(strings.TrimSuffix(answer, "\n\n"), "\n\n") {
		var e event
		lines := strings.Split(text, "\n")
		if name, ok := strings.CutPrefix(lines[0], "event: "); ok {
			e.name, lines = name, lines[1:]
		}
		data, ok := "", len(lines) == 1
		if ok {
			data, ok = strings.CutPrefix(lines[0], "data: ")
		}
		if !ok {
			return nil, fmt.Errorf("an event is %q", text)
		}
		if e.data = data; data != "[DONE]" {
			if err := json.Unmarshal([]byte(data), &e.json); err != nil {
				return nil, fmt.Errorf("an event's data are %q: %v", data, err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// chunk is an event of OpenAI's streams.
type chunk struct {
	ID      string
	Choices []struct {
		Text  string
		Delta struct{ Role, Content string }
		End   *string `json:"finish_reason"`
	}
	Usage *struct {
		Output int `json:"completion_tokens"`
	}
	Error *struct{ Message string }
}

// chunks are the events of a stream of OpenAI's, which all have one id and end with [DONE], and none behind an error but that.
func chunks(answer string) (all []chunk, err error) {
	list, err := events(answer)
	if err != nil {
		return nil, err
	}
	if list[len(list)-1].data != "[DONE]" {
		return nil, fmt.Errorf("the last event is %q", list[len(list)-1].data)
	}
	for i, e := range list[:len(list)-1] {
		var c chunk
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			return nil, err
		}
		if c.Error != nil && i != len(list)-2 {
			return nil, fmt.Errorf("event %d is an error, and there are %d", i, len(list))
		}
		if c.Error == nil && c.ID != list[0].json["id"] {
			return nil, fmt.Errorf("event %d is of %s, the first of %v", i, c.ID, list[0].json["id"])
		}
		all = append(all, c)
	}
	return all, nil
}

// joined is the text of chunks: pieces, then one end, and nothing of a choice behind it.
func joined(all []chunk) (r reply, err error) {
	end := ""
	for i, c := range all {
		if c.Error != nil {
			return reply{text: r.text, failed: true}, nil
		}
		for _, x := range c.Choices {
			if end != "" {
				return r, fmt.Errorf("event %d comes behind the end", i)
			}
			if r.text += x.Text + x.Delta.Content; x.End != nil {
				end = *x.End
			}
		}
	}
	if end == "" {
		return r, fmt.Errorf("no event has a finish_reason")
	}
	r.text += "|" + end + "\n"
	return r, nil
}

func textStream(answer string) (reply, error) {
	all, err := chunks(answer)
	if err != nil {
		return reply{}, err
	}
	return joined(all)
}

// chatStream begins with the role, and has the usage at its end.
func chatStream(answer string) (r reply, err error) {
	all, err := chunks(answer)
	if err != nil || len(all) == 0 {
		return r, err
	}
	if r, err = joined(all); err != nil || r.failed {
		return r, err
	}
	for i, c := range all {
		if has := len(c.Choices) > 0 && c.Choices[0].Delta.Role != ""; has != (i == 0) {
			return r, fmt.Errorf("event %d has a role: %t", i, has)
		}
		if (c.Usage != nil) != (i == len(all)-1) {
			return r, fmt.Errorf("event %d of %d has a usage: %t", i, len(all), c.Usage != nil)
		}
	}
	r.text += fmt.Sprint(all[len(all)-1].Usage.Output)
	return r, nil
}

// messagesStream takes Anthropic's events, in the order of its documentation.
func messagesStream(answer string) (r reply, err error) {
	list, err := events(answer)
	if err != nil {
		return r, err
	}
	order := []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
	at := 0
	for i, e := range list {
		switch {
		case e.name != e.json["type"]:
			return r, fmt.Errorf("event %d is %s and its type %v", i, e.name, e.json["type"])
		case e.name == "error":
			if i != len(list)-1 {
				return r, fmt.Errorf("event %d of %d is an error", i, len(list))
			}
			r.failed = true
			return r, nil
		case e.name == "ping":
		case e.name == order[at] && e.name == "content_block_delta":
			delta, _ := e.json["delta"].(map[string]any)
			r.text += fmt.Sprint(delta["text"])
		case e.name == order[at] && i == 0:
		case at+1 < len(order) && e.name == order[at+1]:
			if at++; e.name == "content_block_delta" {
				delta, _ := e.json["delta"].(map[string]any)
				r.text += fmt.Sprint(delta["text"])
			}
			if e.name == "message_delta" {
				r.text += fmt.Sprint("|", e.json["delta"], e.json["usage"].(map[string]any)["output_tokens"])
			}
		default:
			return r, fmt.Errorf("event %d is %s behind %s", i, e.name, order[at])
		}
	}
	if at != len(order)-1 {
		return r, fmt.Errorf("the last event is %s", list[len(list)-1].name)
	}
	return r, nil
}

// responsesStream takes the events of OpenAI's responses, which are numbered; what the last has is what the pieces make.
func responsesStream(answer string) (r reply, err error) {
	list, err := events(answer)
	if err != nil {
		return r, err
	}
	pieces := ""
	for i, e := range list {
		if e.name == "error" || e.name == "response.failed" {
			return reply{text: pieces, failed: true}, nil
		}
		if e.name != e.json["type"] || e.json["sequence_number"] != float64(i) {
			return r, fmt.Errorf("event %d is %s of number %v", i, e.name, e.json["sequence_number"])
		}
		switch e.name {
		case "response.output_text.delta":
			pieces += fmt.Sprint(e.json["delta"])
		case "response.output_text.done":
			if r.text = fmt.Sprint(e.json["text"]); r.text != pieces {
				return r, fmt.Errorf("the text is %q and its pieces are %q", r.text, pieces)
			}
		}
	}
	if first, last := list[0].name, list[len(list)-1].name; first != "response.created" || last != "response.completed" && last != "response.incomplete" {
		return r, fmt.Errorf("the first event is %s and the last %s", first, last)
	}
	return r, nil
}

// jsonLines takes Ollama's lines, of which the last and no other is done.
func jsonLines(answer string) (r reply, err error) {
	all := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	for i, line := range all {
		var x struct {
			Response string
			Done     bool
			Reason   string `json:"done_reason"`
			Error    string
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			return r, fmt.Errorf("line %d is %q: %v", i, line, err)
		}
		if x.Error != "" && i == len(all)-1 {
			r.failed = true
			return r, nil
		}
		if x.Error != "" || x.Done != (i == len(all)-1) {
			return r, fmt.Errorf("line %d of %d is %q", i, len(all), line)
		}
		r.text += x.Response + x.Reason
	}
	return r, nil
}

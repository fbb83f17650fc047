package openai

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// inherit takes over the parameters that the model was created with, where the request leaves them open.
func (q *Sampling) inherit(s *serving.Service) error {
	if s.Preset == nil || len(s.Preset.Parameters) == 0 {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for name, value := range s.Preset.Parameters {
		if name == "num_predict" {
			var n int
			if json.Unmarshal(value, &n) != nil || n < 1 || q.MaxTokens != nil {
				continue // below 1: no limit
			}
			name = "n_predict"
		}
		if name != "repeat_penalty" || q.RepetitionPenalty == nil {
			fields[name] = value
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	var own Sampling
	if err := json.Unmarshal(body, &own); err != nil {
		return fmt.Errorf("the parameters that the model was created with: %w", err)
	}
	fill(reflect.ValueOf(q).Elem(), reflect.ValueOf(&own).Elem())
	return nil
}

// fill sets the fields of a struct that are nil, and those of the structs in it, to those of another.
func fill(to, from reflect.Value) {
	for i := range to.NumField() {
		switch x := to.Field(i); x.Kind() {
		case reflect.Struct:
			fill(x, from.Field(i))
		case reflect.Pointer, reflect.Slice:
			if x.IsNil() && x.CanSet() {
				x.Set(from.Field(i))
			}
		}
	}
}

// opened is a conversation behind the messages that the model was created with, under its system prompt unless it has one itself.
func opened(s *serving.Service, messages []ChatMessage) []ChatMessage {
	p := s.Preset
	if p == nil || len(messages) == 0 {
		return messages
	}
	var all []ChatMessage
	if first := messages[0].Role; p.System != "" && first != "system" && first != "developer" {
		all = append(all, ChatMessage{Role: "system", Content: api.Quoted(p.System)})
	} else if first == "system" || first == "developer" {
		all, messages = append(all, messages[0]), messages[1:]
	}
	for _, m := range p.Messages {
		all = append(all, ChatMessage{Role: m.Role, Content: api.Quoted(m.Content)})
	}
	return append(all, messages...)
}

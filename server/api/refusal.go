package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Refusal is a field that OpenAI's or vLLM's API knows and Ridge does not do. Left unsaid it would be ignored, and the
// answer would not be what was asked for. Fields that no API knows are ignored, as servers commonly do.
type Refusal struct {
	Harmless string // JSON values that ask for nothing, space between; null always does
	Why      string
}

// selective is a request's body that names the fields it refuses.
type selective interface{ Refuses() map[string]Refusal }

// refuseFields refuses a body with a field that v does not do.
func refuseFields(body []byte, v any) error {
	s, ok := v.(selective)
	if !ok {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // not an object; that has been told
	}
	table := s.Refuses()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		r, known := table[name]
		if !known {
			continue
		}
		var value bytes.Buffer
		if json.Compact(&value, fields[name]) != nil || value.String() == "null" || slices.Contains(strings.Fields(r.Harmless), value.String()) {
			continue
		}
		return Invalid(name, "%s is not supported: %s", name, r.Why)
	}
	return nil
}

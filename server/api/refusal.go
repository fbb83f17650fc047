package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Refusal is a field of another server's API that Ridge does not support. If it were ignored, the answer would not be what
// was asked for. Fields that no API has are ignored, as servers commonly do.
type Refusal struct {
	Harmless string // JSON values, separated by spaces, that request the default; null always does
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
		return nil // not an object; json.Unmarshal has reported it
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

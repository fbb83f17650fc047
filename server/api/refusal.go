package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
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
	return refuseIn(body, s.Refuses(), "")
}

// within is the entries of a table for the fields of an object, "options.mirostat" of options.
func within(table map[string]Refusal, name string) (inner map[string]Refusal) {
	for key, r := range table {
		if field, ok := strings.CutPrefix(key, name+"."); ok {
			if inner == nil {
				inner = map[string]Refusal{}
			}
			inner[field] = r
		}
	}
	return inner
}

func refuseIn(body []byte, table map[string]Refusal, prefix string) error {
	fields := map[string][]byte{} // those that may be refused; of a name that stands twice the last
	for name, value := range Members(body) {
		if _, known := table[name]; known || within(table, name) != nil {
			fields[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if inner := within(table, name); inner != nil {
			if err := refuseIn(fields[name], inner, name+"."); err != nil {
				return err
			}
		}
		r, known := table[name]
		if !known {
			continue
		}
		var value bytes.Buffer
		if json.Compact(&value, fields[name]) != nil || value.String() == "null" || slices.ContainsFunc(strings.Fields(r.Harmless), func(x string) bool { return sameJSON(x, value.String()) }) {
			continue
		}
		return Invalid(prefix+name, "%s is not supported: %s", prefix+name, r.Why)
	}
	return nil
}

// sameJSON reports whether two JSON values are the same: numbers by what they are worth.
func sameJSON(a, b string) bool {
	x, xErr := strconv.ParseFloat(a, 64)
	y, yErr := strconv.ParseFloat(b, 64)
	return a == b || xErr == nil && yErr == nil && x == y
}

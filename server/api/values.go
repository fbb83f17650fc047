package api

import "encoding/json"

// Set copies a value that was given.
func Set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Present reports whether a field was given, and not as null.
func Present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Quoted is a text as JSON.
func Quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text) // a string always has a JSON form
	return data
}

// OrNull is a text as JSON, null when there is none.
func OrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

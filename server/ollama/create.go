package ollama

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
)

// createRequest is a request of /api/create.
type createRequest struct {
	Model  string `json:"model"`
	Name   string `json:"name"` // what older clients call it
	From   string `json:"from"`
	Stream *bool  `json:"stream"`

	Parameters json.RawMessage `json:"parameters"`
	Template   json.RawMessage `json:"template"`
	System     json.RawMessage `json:"system"`
	Messages   json.RawMessage `json:"messages"`
	Adapters   json.RawMessage `json:"adapters"`
	Files      json.RawMessage `json:"files"`
	Quantize   json.RawMessage `json:"quantize"`
	Modelfile  json.RawMessage `json:"modelfile"` // of clients older than 0.5.5
}

// check refuses what would make another model than the one it is made from.
func (q *createRequest) check() error {
	for _, f := range []struct {
		name    string
		value   json.RawMessage
		instead string
	}{
		{"parameters", q.Parameters, "send them as options with each request"},
		{"template", q.Template, "ridge serve --chat-template serves a model with another"},
		{"system", q.System, "send it as the first message of each conversation"},
		{"messages", q.Messages, "send them at the beginning of each conversation"},
		{"adapters", q.Adapters, "ridge serve --lora serves a model with adapters"},
		{"files", q.Files, "put them into a folder of --models-dir"},
		{"quantize", q.Quantize, "ridge quantize writes such a file"},
		{"modelfile", q.Modelfile, "send the field from, as today's clients of Ollama do"},
	} {
		if !neutral(f.value) {
			return api.Invalid(f.name, "%s of /api/create is not done; %s", f.name, f.instead)
		}
	}
	if cmp.Or(q.Model, q.Name) == "" || q.From == "" {
		return api.Invalid("from", "model and from are wanted: a name, and the model that it is to mean")
	}
	return nil
}

// neutral reports whether a field is not given, or empty.
func neutral(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "{}", "[]":
		return true
	}
	return false
}

// create is POST /api/create: a further name for the model of from, as /api/copy gives it; what would change that model is refused by name.
func (s *Librarian) create(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	var q createRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := library.Copy(q.From, cmp.Or(q.Model, q.Name)); err != nil {
		return nil, err
	}
	success := map[string]string{"status": "success"}
	if q.Stream != nil && !*q.Stream {
		return success, nil
	}
	_ = api.NewStream(w).Line(success) // an error means that the client has gone
	return nil, nil
}

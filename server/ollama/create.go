package ollama

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/chat/gotemplate"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// Creation is a model that is to be made of another, or of files that were sent.
type Creation struct {
	From     string            // the model that it is made of; "": Files
	Files    map[string]string // digests by name
	Adapters map[string]string // likewise, of one adapter
	License  []string
	Quantize string // the number format of its own copy of the weights; "": it has those that it is made of
	serving.Preset
}

// createRequest is a request of /api/create: the fields, or a Modelfile.
type createRequest struct {
	Model  string `json:"model"`
	Name   string `json:"name"` // what older clients call it
	Stream *bool  `json:"stream"`

	From       string                     `json:"from"`
	Files      map[string]string          `json:"files"`
	Adapters   map[string]string          `json:"adapters"`
	Template   string                     `json:"template"`
	System     string                     `json:"system"`
	License    licenses                   `json:"license"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Messages   []message                  `json:"messages"`
	Quantize   string                     `json:"quantize"`
	Older      string                     `json:"quantization"` // what older clients call it
	Modelfile  string                     `json:"modelfile"`    // of clients older than 0.5.5

	keep func(path string) (map[string]string, error) // keeps an adapter that lies where the Modelfile does; nil: it is a client's
}

// Modelfile reads the text of a Modelfile that lies on this machine. FROM and ADAPTER may be paths; keep takes the files of an adapter, and gives their digests by name.
func Modelfile(name, text string, keep func(path string) (map[string]string, error)) (Creation, error) {
	q := createRequest{Model: name, Modelfile: text, keep: keep}
	return q.creation()
}

// Refuses are the fields that are not done.
func (q *createRequest) Refuses() map[string]api.Refusal {
	return map[string]api.Refusal{
		"path":     {Harmless: `""`, Why: "the server reads no Modelfile of its own; send its text as modelfile"},
		"renderer": {Harmless: `""`, Why: "conversations are rendered by the chat template"},
		"parser":   {Harmless: `""`, Why: "answers are read as the chat template shows it"},
	}
}

// licenses is a text or some.
type licenses []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *licenses) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" {
			*l = licenses{one}
		}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(l)) != nil {
		return api.Invalid("license", "license should be a string or an array of strings")
	}
	return nil
}

// creation checks the request, and is what it asks for.
func (q *createRequest) creation() (c Creation, err error) {
	if q.Modelfile != "" {
		if err := q.read(q.Modelfile); err != nil {
			return c, err
		}
	}
	if digest, ok := strings.CutPrefix(q.From, "@"); ok {
		q.From, q.Files = "", map[string]string{"model.gguf": digest}
	}
	switch {
	case cmp.Or(q.Model, q.Name) == "":
		return c, api.Invalid("model", "model is missing: the name of the model that is to be created")
	case q.From == "" && len(q.Files) == 0:
		return c, api.Invalid("from", "from is missing: the model that the new one is made of, or files, those of the new one")
	case q.From != "" && len(q.Files) > 0:
		return c, api.Invalid("files", "from and files are both given; a model is made of another, or of files")
	}
	c = Creation{From: q.From, Files: q.Files, Adapters: q.Adapters, License: q.License}
	c.System, c.Parameters, c.Quantize = q.System, q.Parameters, cmp.Or(q.Quantize, q.Older)
	for i, m := range q.Messages {
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" || len(m.Images) > 0 {
			return c, api.Invalid("messages", "message %d has the role %q, or images; system, user and assistant are possible, with text", i, m.Role)
		}
		c.Messages = append(c.Messages, serving.PresetMessage{Role: m.Role, Content: m.Content})
	}
	if c.Template, err = gotemplate.Jinja(q.Template); err != nil {
		return c, api.Invalid("template", "the template is not understood: %v", err)
	}
	return c, checkParameters(q.Parameters)
}

// notHere are parameters of Ollama's that say how it computes, which changes no answer.
var notHere = []string{"num_gpu", "num_thread", "num_batch", "num_keep", "main_gpu", "low_vram", "f16_kv", "use_mmap", "use_mlock", "numa", "vocab_only", "logits_all", "penalize_newline"}

// ChangesNothing reports whether a parameter says only how Ollama computes.
func ChangesNothing(parameter string) bool { return slices.Contains(notHere, parameter) }

// checkParameters refuses parameters that a request's options would not take.
func checkParameters(all map[string]json.RawMessage) error {
	q := request{}
	known := map[string]json.RawMessage{}
	fields, err := json.Marshal(q.Options)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(fields, &known); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		raw := all[name]
		if r, refused := refusals["options."+name]; refused && !slices.Contains(strings.Fields(r.Harmless), string(raw)) {
			return api.Invalid("parameters."+name, "the parameter %s is not supported: %s", name, r.Why)
		} else if _, ok := known[name]; !ok && !refused && !ChangesNothing(name) {
			return api.Invalid("parameters."+name, "there is no parameter %s; those of a request's options are possible, such as temperature and num_ctx", name)
		}
	}
	body, err := json.Marshal(map[string]any{"options": all})
	if err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&q); err != nil {
		var field *json.UnmarshalTypeError
		if errors.As(err, &field) {
			name := field.Field[strings.LastIndexByte(field.Field, '.')+1:]
			return api.Invalid("parameters."+name, "the parameter %s is a JSON %s, which it cannot be", name, field.Value)
		}
		return api.Invalid("parameters", "the parameters are not understood: %v", err)
	}
	if n := q.Options.Context; n != nil && *n < 1 {
		return api.Invalid("parameters.num_ctx", "the parameter num_ctx is %d; 1 or more is possible", *n)
	}
	return nil
}

// create is POST /api/create: a model made of another, with its own system prompt, parameters, template, adapter or first messages, or of files that were sent.
func (s *Librarian) create(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	var q createRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	c, err := q.creation()
	if err != nil {
		return nil, err
	}
	if err := library.Create(cmp.Or(q.Model, q.Name), c); err != nil {
		return nil, err
	}
	success := map[string]string{"status": "success"}
	if q.Stream != nil && !*q.Stream {
		return success, nil
	}
	_ = api.NewStream(w).Line(success) // an error means that the client has gone
	return nil, nil
}

// hasBlob is HEAD /api/blobs/DIGEST.
func (s *Librarian) hasBlob(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	has, err := library.HasBlob(r.PathValue("digest"))
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: "there is no such file here; POST it"}
	}
	w.WriteHeader(http.StatusOK)
	return nil, nil
}

// putBlob is POST /api/blobs/DIGEST: a file for a model that is about to be created, as large as the disk has room for.
func (s *Librarian) putBlob(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	if err := library.PutBlob(r.PathValue("digest"), r.ContentLength, api.Arriving(w, r)); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusCreated)
	return nil, nil
}

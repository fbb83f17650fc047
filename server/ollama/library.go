package ollama

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
)

// Library is the models that a server has, for clients that may change which those are. The clients are told its errors.
type Library interface {
	// Pull fetches a model until ctx is done. progress is called with how far it has come; calls do not overlap, and the last ends before Pull does.
	Pull(ctx context.Context, name string, progress func(Pulled)) error
	// Delete deletes a model, or takes away a name that Copy has given.
	Delete(name string) error
	// Copy gives a model another name.
	Copy(name, as string) error
	// Create makes a model of another, or of files that PutBlob has taken, in place of one that was created under that name before.
	Create(name string, c Creation) error
	// HasBlob reports whether there is a file of a digest, and PutBlob takes one, of so many bytes; -1: it is not known how many.
	HasBlob(digest string) (bool, error)
	PutBlob(digest string, size int64, content io.Reader) error
}

// Pulled is how far a pull has come.
type Pulled struct {
	File   string // that is being fetched
	Digest string // SHA-256 of the largest file, in hexadecimal: by it clients tell pulls apart; "": none of the files has one
	Done   int64  // bytes of all files, those that were there before included
	Total  int64
}

// Librarian is the endpoints that change which models there are.
type Librarian struct {
	*api.Responder
	Open func(*http.Request) (Library, error) // the library for a request, or why its client may not change it
}

// Routes are the endpoints by their patterns.
func (s *Librarian) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /api/pull":     s.Timed(s.pull),
		"DELETE /api/delete": s.Handle(s.remove),
		"POST /api/copy":     s.Handle(s.copy),
		"POST /api/create":   s.Handle(s.create),
		"POST /api/push":     s.Handle(s.push),
		"POST /api/me":       s.Handle(s.push), // whose account it would be, which Ollama's program asks first

		"HEAD /api/blobs/{digest}": s.Handle(s.hasBlob),
		"POST /api/blobs/{digest}": s.Handle(s.putBlob),
	}
}

// pull is POST /api/pull: a JSON object a line, the last of status success, or with the error. What has come when the client hangs up is kept, and the next pull goes on from there.
func (s *Librarian) pull(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	var q struct {
		Model  string `json:"model"`
		Name   string `json:"name"` // what older clients call it
		Stream *bool  `json:"stream"`
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	name := cmp.Or(q.Model, q.Name)
	if name == "" {
		return nil, api.Invalid("model", "model is missing; name the one to pull: a short name such as qwen3:4b, or ORG/REPO[:QUANT] of the Hugging Face hub")
	}
	success := map[string]string{"status": "success"}
	if q.Stream != nil && !*q.Stream {
		if err := library.Pull(r.Context(), name, func(Pulled) {}); err != nil {
			return nil, err
		}
		return success, nil
	}
	ctx, hangUp := context.WithCancel(r.Context())
	defer hangUp()
	out := api.NewStream(w)
	line := func(v any) {
		if out.Line(v) != nil {
			hangUp() // the client has gone, or reads too slowly
		}
	}
	line(map[string]string{"status": "pulling manifest"})
	if err := library.Pull(ctx, name, func(p Pulled) { line(p.line()) }); err != nil {
		line(Error(s.Error(w, r, err)))
		return nil, nil
	}
	line(success)
	return nil, nil
}

// line is what a client is told of a pull under way.
func (p Pulled) line() map[string]any {
	l := map[string]any{"status": "pulling " + p.File, "total": p.Total, "completed": p.Done}
	if p.Digest != "" {
		l["digest"] = "sha256:" + p.Digest
	}
	return l
}

// remove is DELETE /api/delete.
func (s *Librarian) remove(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	name := cmp.Or(q.Model, q.Name)
	if name == "" {
		return nil, api.Invalid("model", "model is missing; name the one to delete")
	}
	if err := library.Delete(name); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK) // without a body, as Ollama
	return nil, nil
}

// copy is POST /api/copy: another name, which takes no further room.
func (s *Librarian) copy(w http.ResponseWriter, r *http.Request) (any, error) {
	library, err := s.Open(r)
	if err != nil {
		return nil, err
	}
	var q struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	if q.Source == "" || q.Destination == "" {
		return nil, api.Invalid("source", "source and destination are wanted: a model, and the further name for it")
	}
	if err := library.Copy(q.Source, q.Destination); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return nil, nil
}

// push is POST /api/push.
func (s *Librarian) push(http.ResponseWriter, *http.Request) (any, error) {
	return nil, &api.Error{Status: http.StatusNotImplemented, Kind: "invalid_request_error", Code: "not_supported", Message: "/api/push is not done: Ridge sends no models anywhere; Hugging Face's own tools (hf upload) do"}
}

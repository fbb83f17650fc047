package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/ollama"
)

// Library changes which models List lists. Clients are told its errors.
type Library interface {
	// Pull fetches a model, which List has from then on. progress is as ollama.Library's.
	Pull(ctx context.Context, name string, progress func(ollama.Pulled)) error
	// Delete deletes a model, or only the name by which it was found, if Copy has given it that.
	Delete(m ModelFile, name string) error
	// Copy gives a model another name.
	Copy(m ModelFile, as string) error
	// Create makes a model of another, or, where that is nil, of files that PutBlob has taken.
	Create(name string, of *ModelFile, c ollama.Creation) error
	// HasBlob and PutBlob are as ollama.Library's.
	HasBlob(digest string) (bool, error)
	PutBlob(digest string, size int64, content io.Reader) error
}

// library is a server's Library for requests.
type library struct{ *Models }

// Pull implements ollama.Library.
func (s library) Pull(ctx context.Context, name string, progress func(ollama.Pulled)) error {
	if err := s.o.Library.Pull(ctx, plainName(name), progress); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &api.Error{Status: http.StatusInternalServerError, Kind: "server_error", Code: "not_pulled", Message: sentence(err)}
	}
	_, err := s.list()
	return err
}

// Delete implements ollama.Library. Requests under way end with the model, which is unloaded behind them.
func (s library) Delete(name string) error {
	f, err := s.find(name)
	if err != nil {
		return err
	}
	if err := s.o.Library.Delete(f, plainName(name)); err != nil {
		return notChanged(err)
	}
	files, err := s.list()
	if err != nil {
		return err
	}
	for _, other := range files {
		if other.Name == f.Name {
			return nil // it lost a name only
		}
	}
	s.residents.dismiss(f.Name)
	return nil
}

// dismiss has a model unloaded whose files were deleted, once its requests have ended.
func (s *residents) dismiss(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[name]
	if x == nil || x.server == nil {
		return
	}
	x.deleted, x.keep = true, 0
	if x.uses == 0 {
		x.take(0)
		s.expireLater(x)
	}
}

// Copy implements ollama.Library.
func (s library) Copy(name, as string) error {
	f, err := s.find(name)
	if err != nil {
		return err
	}
	if other, err := s.find(as); err == nil && other.Name == plainName(as) {
		return api.Invalid("destination", "there is a model %q already; give another name, or delete that first", other.Name)
	}
	if err := s.o.Library.Copy(f, plainName(as)); err != nil {
		return notChanged(err)
	}
	_, err = s.list()
	return err
}

// Create implements ollama.Library.
func (s library) Create(name string, c ollama.Creation) error {
	name = plainName(name)
	var of *ModelFile
	if c.From != "" {
		f, err := s.find(c.From)
		if err != nil {
			return err
		}
		if f.Preset != nil && f.Adapter != "" && len(c.Adapters) > 0 {
			return api.Invalid("adapters", "%s has an adapter already, and another cannot be put on top", f.Name)
		}
		of = &f
	}
	if other, err := s.find(name); err == nil && other.Preset == nil {
		return api.Invalid("model", "there is a model %q already, which was not created; give another name", name)
	}
	if err := s.o.Library.Create(name, of, c); err != nil {
		return notChanged(err)
	}
	_, err := s.list()
	return err
}

// HasBlob implements ollama.Library.
func (s library) HasBlob(digest string) (bool, error) {
	has, err := s.o.Library.HasBlob(digest)
	if err != nil {
		return false, notChanged(err)
	}
	return has, nil
}

// PutBlob implements ollama.Library.
func (s library) PutBlob(digest string, size int64, content io.Reader) error {
	if err := s.o.Library.PutBlob(digest, size, content); err != nil {
		return notChanged(err)
	}
	return nil
}

// notChanged is why a model was not deleted or named, for a client.
func notChanged(err error) error {
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return &api.Error{Status: http.StatusInternalServerError, Kind: "server_error", Code: "not_changed", Message: sentence(err)}
	}
	return api.Invalid("model", "%s", sentence(err))
}

// created is what the packages begin their errors with.
var created = regexp.MustCompile(`\b(hub|shelf|created): `)

// sentence is an error without the name of the package.
func sentence(err error) string {
	return created.ReplaceAllString(err.Error(), "")
}

// plainName is a model's name without what Ollama's clients put before and behind it.
func plainName(name string) string {
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		name = strings.TrimPrefix(name, host)
	}
	return strings.TrimSuffix(name, ":latest")
}

// openLibrary is the library for a request whose client may change it.
func (s *Models) openLibrary(r *http.Request) (ollama.Library, error) {
	switch {
	case s.o.Library == nil:
		return nil, mayNot("clients may not change the models of this server; ridge serve --models-hub --manage-models lets them")
	case !access.From(r.Context()).Manages:
		return nil, mayNot(r.URL.Path + " changes the models that all keys use; use a key that is marked admin in the file of keys")
	}
	return library{s}, nil
}

// noLibrary is why the model of a server of one cannot be changed.
func noLibrary(*http.Request) (ollama.Library, error) {
	return nil, mayNot("this server has one model, which clients cannot change; ridge serve --models-hub --manage-models serves many and lets them")
}

// mayNot refuses a request.
func mayNot(why string) *api.Error {
	return &api.Error{Status: http.StatusForbidden, Kind: "permission_error", Code: "models_not_managed", Message: why}
}

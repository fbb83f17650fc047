package batch

import (
	"cmp"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
	"github.com/ridge-llm/ridge/server/stored"
)

// maxFile is the most bytes of an uploaded file, OpenAI's limit.
const maxFile = 512 << 20

// maxName is the most bytes of a file's name.
const maxName = 1 << 10

// upload is POST /v1/files: multipart/form-data with purpose and file.
func (s *API) upload(w http.ResponseWriter, r *http.Request) (any, error) {
	r.Body = http.MaxBytesReader(w, api.Arriving(w, r), maxFile+1<<20)
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, api.Invalid("", "the body should be multipart/form-data with the fields purpose and file")
	}
	var u uploadForm
	defer u.drop()
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, api.Invalid("", "the form did not arrive completely: %v", err)
		}
		if err := u.take(stored.View(s.store, r), part); err != nil {
			return nil, err
		}
	}
	return u.keep()
}

// uploadForm is the fields of a form so far; they come in any order.
type uploadForm struct {
	purpose string
	expires time.Time
	name    string
	content *store.Upload
}

// keep makes the content a file.
func (u *uploadForm) keep() (f store.File, err error) {
	switch {
	case u.purpose != "batch":
		return f, api.Invalid("purpose", "purpose is %q; files are taken for purpose batch only", u.purpose)
	case u.content == nil:
		return f, api.Invalid("file", "the form has no field named file")
	}
	content := u.content
	u.content = nil
	return content.Keep(u.name, u.purpose, u.expires)
}

// drop forgets a content that has not become a file.
func (u *uploadForm) drop() {
	if u.content != nil {
		_ = u.content.Drop() // a leftover is removed at the next start
	}
}

// take reads a field of the form.
func (u *uploadForm) take(st store.View, part *multipart.Part) (err error) {
	if part.FormName() == "file" {
		if u.content != nil {
			return api.Invalid("file", "the form has two fields named file")
		}
		if u.name = cmp.Or(part.FileName(), "file"); len(u.name) > maxName {
			return api.Invalid("file", "the name of the file has %d bytes; %d are possible", len(u.name), maxName)
		}
		u.content, err = st.Receive(st.Owner(), part, maxFile)
		return unfinished(err)
	}
	value, err := io.ReadAll(io.LimitReader(part, 1<<10))
	if err != nil {
		return api.Invalid("", "the form did not arrive completely: %v", err)
	}
	switch part.FormName() {
	case "purpose":
		u.purpose = string(value)
	case "expires_after[anchor]":
		if string(value) != "created_at" {
			return api.Invalid("expires_after", "expires_after[anchor] is %q; created_at is possible", value)
		}
	case "expires_after[seconds]":
		n, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil || n < 1 {
			return api.Invalid("expires_after", "expires_after[seconds] is %q; it should be a whole number above 0", value)
		}
		u.expires = time.Now().Add(time.Duration(n) * time.Second)
	}
	return nil
}

// unfinished distinguishes errors of the client's sending from errors of the store.
func unfinished(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &store.TooLargeError{Limit: maxFile}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return api.Invalid("file", "the file did not arrive completely; nothing was kept of it")
	}
	return err
}

// files is GET /v1/files.
func (s *API) files(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	list := stored.View(s.store, r).Files()
	if purpose := q.Get("purpose"); purpose != "" {
		list = slices.DeleteFunc(list, func(f store.File) bool { return f.Purpose != purpose })
	}
	return stored.Page(q, 10000, 10000, list, func(f store.File) string { return f.ID })
}

// file is GET /v1/files/ID.
func (s *API) file(_ http.ResponseWriter, r *http.Request) (any, error) {
	return stored.View(s.store, r).File(r.PathValue("id"))
}

// fileContent is GET /v1/files/ID/content.
func (s *API) fileContent(w http.ResponseWriter, r *http.Request) (any, error) {
	f, err := stored.View(s.store, r).Open(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&deadlineWriter{w, http.NewResponseController(w)}, r, "", time.Time{}, f)
	return nil, nil
}

// deadlineWriter writes an answer with a deadline for each write, not for the whole.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements io.Writer.
func (s *deadlineWriter) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(api.WriteTime))
	return s.ResponseWriter.Write(b)
}

// deleteFile is DELETE /v1/files/ID. A batch that is not over needs its input.
func (s *API) deleteFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, st := r.PathValue("id"), stored.View(s.store, r)
	if _, err := st.File(id); err != nil {
		return nil, err
	}
	for _, b := range st.Batches() {
		if b.Input == id && !b.Status.Over() {
			return nil, &api.Error{Status: http.StatusConflict, Kind: "invalid_request_error", Message: "batch " + b.ID + " still reads the file " + id + "; cancel it first"}
		}
	}
	if err := st.Delete(id); err != nil {
		return nil, err
	}
	return map[string]any{"id": id, "object": "file", "deleted": true}, nil
}

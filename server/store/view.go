package store

import (
	"fmt"
	"slices"
)

// View is a store as one owner sees it: what is of others does not exist.
type View struct {
	*Store
	owner string
	all   bool
}

// View is the store as an owner sees it; all: with what is of all others.
func (s *Store) View(owner string, all bool) View { return View{s, owner, all} }

// Owner is the owner of what is stored through the view.
func (v View) Owner() string { return v.owner }

func (v View) sees(owner string) bool { return v.all || owner == v.owner }

// Files lists the files that the owner sees, the newest first.
func (v View) Files() []File {
	return slices.DeleteFunc(v.Store.Files(), func(f File) bool { return !v.sees(f.Owner) })
}

// File is what is known of one file.
func (v View) File(id string) (File, error) {
	f, err := v.Store.File(id)
	if err == nil && !v.sees(f.Owner) {
		return File{}, fmt.Errorf("%w: there is no file %q", ErrNotFound, id)
	}
	return f, err
}

// Open opens a file's content.
func (v View) Open(id string) (DiskFile, error) {
	if _, err := v.File(id); err != nil {
		return nil, err
	}
	return v.Store.Open(id)
}

// Delete removes a file.
func (v View) Delete(id string) error {
	if _, err := v.File(id); err != nil {
		return err
	}
	return v.Store.Delete(id)
}

// Batches lists the batches that the owner sees, the newest first.
func (v View) Batches() []Batch {
	return slices.DeleteFunc(v.Store.Batches(), func(b Batch) bool { return !v.sees(b.Owner) })
}

// Batch is what is known of one batch.
func (v View) Batch(id string) (Batch, error) {
	b, err := v.Store.Batch(id)
	if err == nil && !v.sees(b.Owner) {
		return Batch{}, fmt.Errorf("%w: there is no batch %q", ErrNotFound, id)
	}
	return b, err
}

// PutResponse keeps a response as the owner's.
func (v View) PutResponse(id string, content []byte) error {
	return v.Store.PutResponse(v.owner, id, content)
}

// Response is what is known of one response.
func (v View) Response(id string) (Response, error) {
	r, err := v.Store.Response(id)
	if err == nil && !v.sees(r.Owner) {
		return Response{}, fmt.Errorf("%w: there is no response %q", ErrNotFound, id)
	}
	return r, err
}

// ResponseContent is what was kept of a response.
func (v View) ResponseContent(id string) ([]byte, error) {
	if _, err := v.Response(id); err != nil {
		return nil, err
	}
	return v.Store.ResponseContent(id)
}

// DeleteResponse removes a response.
func (v View) DeleteResponse(id string) error {
	if _, err := v.Response(id); err != nil {
		return err
	}
	return v.Store.DeleteResponse(id)
}

package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// File is what is known of a file, in the shape that OpenAI's API shows.
type File struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "file"
	Bytes   int64  `json:"bytes"`
	Created int64  `json:"created_at"` // seconds since 1970, as all times here
	Expires int64  `json:"expires_at,omitempty"`
	Name    string `json:"filename"`
	Purpose string `json:"purpose"`
	Status  string `json:"status"`          // "processed"
	Owner   string `json:"owner,omitempty"` // the tenant that stored it; "": there were no keys
}

// TooLargeError refuses a file.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("store: the file is larger than %d MiB, the maximum", e.Limit>>20)
}

func (s *Store) content(id string) string { return filepath.Join(s.dir, "files", id) }

// Upload is a content that is there and not yet a file.
type Upload struct {
	store *Store
	whole *whole
	id    string
	owner string
	size  int64
}

// Receive takes what r gives for an owner, up to limit bytes and what is left of the owner's quota. Either all of it is there, or
// nothing and there is an error.
func (s *Store) Receive(owner string, r io.Reader, limit int64) (*Upload, error) {
	id := newID("file-")
	w, err := s.begin("files", id)
	if err != nil {
		return nil, err
	}
	u := &Upload{store: s, whole: w, id: id, owner: owner}
	n, err := io.Copy(u, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = &TooLargeError{limit}
	}
	if err != nil {
		u.release()
		return nil, w.abandon(err)
	}
	return u, nil
}

// Write implements io.Writer within the owner's quota.
func (u *Upload) Write(b []byte) (int, error) {
	if err := u.store.reserve(u.owner, int64(len(b))); err != nil {
		return 0, err
	}
	u.size += int64(len(b))
	return u.whole.Write(b)
}

// release ends the reservation: the content has become a file, which counts from now on, or is dropped.
func (u *Upload) release() {
	_ = u.store.reserve(u.owner, -u.size) // giving back is never refused
	u.size = 0
}

// Keep makes the content a file of its owner. No time is one that never comes.
func (u *Upload) Keep(name, purpose string, expires time.Time) (File, error) {
	defer u.release()
	if err := u.whole.commit(); err != nil {
		return File{}, err
	}
	f := File{ID: u.id, Bytes: u.size, Name: name, Purpose: purpose, Owner: u.owner}
	if !expires.IsZero() {
		f.Expires = expires.Unix()
	}
	return f, u.store.add(&f)
}

// Drop forgets the content.
func (u *Upload) Drop() error {
	u.release()
	return errors.Join(u.whole.Close(), u.store.remove(u.whole.path+partial))
}

// add describes a file whose content is there.
func (s *Store) add(f *File) error {
	f.Object, f.Status, f.Created = "file", "processed", time.Now().Unix()
	if err := s.describe("files", f.ID, f); err != nil {
		return errors.Join(err, s.remove(s.description("files", f.ID), s.content(f.ID))) // it may have its name and only not be durable
	}
	s.mu.Lock()
	s.files[f.ID], s.sizes = *f, nil
	s.mu.Unlock()
	return nil
}

// Files lists all files, the newest first.
func (s *Store) Files() []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpired(time.Now())
	var all []File
	for _, f := range s.files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(b.ID, a.ID)) })
	return all
}

// File is what is known of one file.
func (s *Store) File(id string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpired(time.Now())
	f, ok := s.files[id]
	if !ok {
		return f, fmt.Errorf("%w: there is no file %q", ErrNotFound, id)
	}
	return f, nil
}

// Open opens a file's content.
func (s *Store) Open(id string) (DiskFile, error) {
	if _, err := s.File(id); err != nil {
		return nil, err
	}
	f, err := s.disk.OpenFile(s.content(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return f, nil
}

// Delete removes a file.
func (s *Store) Delete(id string) error {
	if _, err := s.File(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.drop(id), syncDir(s.disk, filepath.Join(s.dir, "files"))) // or a crash would bring it back
}

// drop removes a file; s.mu is held. The description goes first: what has none is not there.
func (s *Store) drop(id string) error {
	delete(s.files, id)
	s.sizes = nil
	return s.remove(s.content(id)+".json", s.content(id))
}

// removeExpired removes the files whose time is over; s.mu is held, or the store is not shared yet.
func (s *Store) removeExpired(now time.Time) {
	for id, f := range s.files {
		if f.Expires > 0 && f.Expires <= now.Unix() {
			_ = s.drop(id) // what is left of it is found again at the next start
		}
	}
}

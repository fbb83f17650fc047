// Package store keeps files, batch jobs and responses in a directory, so that they outlive the process, whatever ends it.
//
//	DIR/lock                  held by the process that uses the directory
//	DIR/files/ID.json, ID     what is known of a file, and its content
//	DIR/batches/ID.json       what is known of a batch
//	DIR/batches/ID.output     its journal: a line for every request answered, in the order in which they were
//	DIR/batches/ID.error      and for every one refused
//	DIR/responses/ID.json     what is known of a response of the Responses API, and behind it its content
//	DIR/damaged/FOLDER/…      what of these could not be read, moved there by Open
//
// Whatever is written whole (content, descriptions) goes to a file of another name first, is synced, and then renamed:
// it is there whole or not at all. Journals are appended to; see Journal.
package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Store is a directory of files, batches and responses. Any number of goroutines may use it.
type Store struct {
	disk Disk
	dir  string
	lock io.Closer

	damaged []Damaged // found by Open

	mu        sync.Mutex
	files     map[string]File
	batches   map[string]Batch
	responses map[string]Response
	making    map[string]int // by owner: batches that are being described for the first time
	quota     Quota
	uploading map[string]int64 // bytes by owner
	sizes     map[string]int64 // of files by owner; nil: to be counted
}

// ErrNotFound says that there is nothing of an id.
var ErrNotFound = errors.New("store: not found")

// Open opens a directory, which is made if it does not exist, and reads what is known of its contents. Only one process
// at a time can have it open.
func Open(dir string) (*Store, error) { return OpenOn(osDisk{}, dir) }

// OpenOn is Open on a Disk.
func OpenOn(disk Disk, dir string) (*Store, error) {
	s := &Store{disk: disk, dir: dir, files: map[string]File{}, batches: map[string]Batch{}, responses: map[string]Response{}, making: map[string]int{}, uploading: map[string]int64{}}
	for _, sub := range []string{"files", "batches", "responses"} {
		if err := disk.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	var err error
	if s.lock, err = disk.Lock(filepath.Join(dir, "lock")); err != nil {
		return nil, fmt.Errorf("store: %s cannot be used: %w", dir, err)
	}
	if err := errors.Join(load(s, "files", s.files), load(s, "batches", s.batches), load(s, "responses", s.responses)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.removeOrphans(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.removeExpired(time.Now())
	return s, nil
}

// removeOrphans removes contents without a description: a crash came between the two.
func (s *Store) removeOrphans() error {
	entries, err := s.disk.ReadDir(filepath.Join(s.dir, "files"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		_, known := s.files[e.Name()]
		if !known && !strings.HasSuffix(e.Name(), ".json") {
			err = errors.Join(err, s.remove(s.content(e.Name())))
		}
	}
	return err
}

// Close lets other processes use the directory.
func (s *Store) Close() error { return s.lock.Close() }

// load reads the descriptions in a folder, and removes what a crash left half made.
func load[T described](s *Store, folder string, into map[string]T) error {
	entries, err := s.disk.ReadDir(filepath.Join(s.dir, folder))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, folder, e.Name())
		id, description := strings.CutSuffix(e.Name(), ".json")
		switch {
		case strings.HasSuffix(e.Name(), partial):
			if err := s.disk.Remove(path); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		case description:
			v, err := readDescription[T](s.disk, path, id, e.Type())
			if err == nil {
				into[id] = v
			} else if err := s.setAside(folder, id, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) folder(name string) string { return filepath.Join(s.dir, name) }

// description is the path of ID.json.
func (s *Store) description(folder, id string) string {
	return filepath.Join(s.dir, folder, id+".json")
}

// partial ends the names of files that are being written.
const partial = ".partial"

// describe writes ID.json.
func (s *Store) describe(folder, id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := s.begin(folder, id+".json")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return f.abandon(err)
	}
	return f.commit()
}

// whole is a file that is being written under another name.
type whole struct {
	DiskFile
	disk Disk
	path string
}

func (s *Store) begin(folder, name string) (*whole, error) {
	path := filepath.Join(s.dir, folder, name)
	f, err := s.disk.OpenFile(path+partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return &whole{f, s.disk, path}, nil
}

// abandon removes the file because of an error, which it returns.
func (f *whole) abandon(err error) error {
	return errors.Join(fmt.Errorf("store: %w", err), f.Close(), f.disk.Remove(f.path+partial))
}

// commit makes the file durable and gives it its name.
func (f *whole) commit() error {
	if err := f.Sync(); err != nil {
		return f.abandon(err)
	}
	if err := f.Close(); err != nil {
		return errors.Join(fmt.Errorf("store: %w", err), f.disk.Remove(f.path+partial))
	}
	return rename(f.disk, f.path+partial, f.path)
}

// rename gives a file another name, and sees to it that it keeps it.
func rename(disk Disk, from, to string) error {
	if err := disk.Rename(from, to); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(disk, filepath.Dir(to))
}

func syncDir(disk Disk, dir string) error {
	if err := disk.SyncDir(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// remove removes files that may not be there.
func (s *Store) remove(paths ...string) error {
	var all error
	for _, path := range paths {
		if err := s.disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("store: %w", err))
		}
	}
	return all
}

// IsFull reports whether an error says that there is no room for more: on the disk, in a quota, or in one file.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// newID is an id that cannot be guessed; later ones sort behind earlier ones.
func newID(prefix string) string {
	return fmt.Sprintf("%s%x%s", prefix, time.Now().UnixMicro(), strings.ToLower(rand.Text()))
}

// Package created keeps models that clients have made of others, as Ollama's create does: a description each, and the files that they have sent. It loads none.
//
//	DIR/blobs/sha256-HEX        a file as it was sent
//	DIR/models/NAME/model.json  what the model is
//	DIR/models/NAME/files/      links to its files, if it has some of its own
//	DIR/models/NAME/adapters/   those of its adapter
package created

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Model is a model that was made of another, or of files.
type Model struct {
	Name       string                     `json:"name"`
	From       string                     `json:"from,omitempty"`     // the model that it is made of, by its name or path; "": its own Files
	Files      map[string]string          `json:"files,omitempty"`    // digests by name: "model.gguf": "sha256:…"
	Adapters   map[string]string          `json:"adapters,omitempty"` // likewise
	Template   string                     `json:"template,omitempty"` // of chats, in Jinja; "": that of From
	System     string                     `json:"system,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"` // by Ollama's names
	Messages   []Message                  `json:"messages,omitempty"`   // that conversations begin with
	License    []string                   `json:"license,omitempty"`

	Path     string    `json:"-"` // of its own files, for a loader; "": it has none
	Adapter  string    `json:"-"` // of its adapter, likewise
	Modified time.Time `json:"-"`
}

// Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Store is the models in a folder. Any number of goroutines may use it.
type Store struct {
	dir string
	mu  sync.Mutex
}

// Open is the store in a folder, which need not exist.
func Open(dir string) *Store { return &Store{dir: dir} }

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$`)

// description is the name of the file that says what a model is.
const description = "model.json"

func (s *Store) folder(name string) string {
	return filepath.Join(s.dir, "models", url.QueryEscape(name)) // without the colon, which not every system has in names
}

// ErrDamaged says that a model cannot be read. The others are as they were.
var ErrDamaged = errors.New("created: a model is damaged")

// List is the models, by name. Where some are damaged it is the others, with ErrDamaged.
func (s *Store) List() (all []Model, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list()
}

func (s *Store) list() (all []Model, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "models"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("created: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(s.dir, "models", e.Name())
		if !e.IsDir() || strings.HasSuffix(e.Name(), beingMade) {
			continue
		}
		m, fault := read(dir)
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// read is the model in a folder.
func read(dir string) (m Model, err error) {
	file := filepath.Join(dir, description)
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	info, ierr := os.Stat(file)
	if err = errors.Join(err, ierr); err != nil {
		return m, fmt.Errorf("%w: %s: %w; delete the folder, or create the model again", ErrDamaged, file, err)
	}
	m.Modified = info.ModTime()
	if len(m.Files) > 0 {
		m.Path = loadable(filepath.Join(dir, "files"), m.Files)
	}
	if len(m.Adapters) > 0 {
		m.Adapter = loadable(filepath.Join(dir, "adapters"), m.Adapters)
	}
	return m, nil
}

// loadable is what a loader is given of a folder of files: the one GGUF file, or else the folder.
func loadable(dir string, files map[string]string) string {
	for name := range files {
		if len(files) == 1 && strings.EqualFold(filepath.Ext(name), ".gguf") {
			return filepath.Join(dir, name)
		}
	}
	return dir
}

// beingMade ends the name of a folder that is not whole yet, or not any more.
const beingMade = "+new"

// Put keeps a model, in place of one of the same name if there is one. Its files must be there: PutBlob.
func (s *Store) Put(m Model) (err error) {
	if err := m.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.folder(m.Name)
	made := dir + beingMade
	if err := os.RemoveAll(made); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	if err := errors.Join(s.link(filepath.Join(made, "files"), m.Files), s.link(filepath.Join(made, "adapters"), m.Adapters)); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if err := os.WriteFile(filepath.Join(made, description), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if err := os.Rename(made, dir); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	return nil
}

// check refuses names that a folder cannot have.
func (m *Model) check() error {
	if !namePattern.MatchString(m.Name) {
		return fmt.Errorf("created: %q cannot be a model's name; letters, digits, dots, dashes and one colon are possible", m.Name)
	}
	for _, files := range []map[string]string{m.Files, m.Adapters} {
		for name := range files {
			if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\:`) {
				return fmt.Errorf("created: a file of the model is called %q; a name without folders is wanted", name)
			}
		}
	}
	return nil
}

// link makes a folder with links to blobs; it makes its parent too.
func (s *Store) link(dir string, files map[string]string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	for name, digest := range files {
		path, err := s.blob(digest)
		if err != nil {
			return err
		}
		if err := os.Link(path, filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("created: the file %s, %s, has not been sent; POST it to /api/blobs/%s first", name, digest, digest)
		} else if err != nil {
			return fmt.Errorf("created: %w", err)
		}
	}
	return nil
}

// ErrNotHere says that there is no such model.
var ErrNotHere = errors.New("created: there is no such model")

// Remove deletes a model, and files that no other has.
func (s *Store) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !namePattern.MatchString(name) {
		return ErrNotHere
	}
	dir := s.folder(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return ErrNotHere
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	return s.prune()
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/created"
	"github.com/ridge-llm/ridge/internal/disk"
	"github.com/ridge-llm/ridge/internal/shelf"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/ollama"
)

// createdDir is the folder of the models that clients have made of others.
func createdDir() (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no folder for models that clients create: %w; set XDG_DATA_HOME", err)
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "ridge"), nil
}

// openCreated opens the store of such models.
func openCreated() (*created.Store, error) {
	dir, err := createdDir()
	return created.Open(dir), err
}

// withCreated is the models with those that were created of them, or of files. One whose model is gone is left out.
func withCreated(all []server.ModelFile) ([]server.ModelFile, error) {
	store, err := openCreated()
	if err != nil {
		return all, nil // without a place for them there are none
	}
	made, err := store.List()
	if err != nil && !errors.Is(err, created.ErrDamaged) { // whoever starts the server is told of damaged ones
		return nil, err
	}
	for _, m := range made {
		f := server.ModelFile{Name: m.Name, Path: m.Path, Of: cmp.Or(m.From, m.Name), Adapter: m.Adapter, License: m.License, Preset: &server.Preset{Template: m.Template, System: m.System, Parameters: m.Parameters}}
		for _, x := range m.Messages {
			f.Preset.Messages = append(f.Preset.Messages, server.PresetMessage(x))
		}
		if m.From != "" {
			i := slices.IndexFunc(all, func(x server.ModelFile) bool { return x.Preset == nil && calledSo(x, m.From) })
			switch {
			case i >= 0:
				f.Path = all[i].Path
			case filepath.IsAbs(m.From) && exists(m.From): // ridge create names files that the server was not given
				f.Path = m.From
			default:
				continue
			}
		}
		f.Bytes, _ = sizeOf(f.Path)
		f.Modified = m.Modified
		all = append(all, f)
	}
	return all, nil
}

// calledSo reports whether a model is meant by a name or a path.
func calledSo(x server.ModelFile, name string) bool {
	return name == x.Name || name == x.Path || slices.Contains(x.Aliases, name)
}

// loadCreated loads a model for a server of several, as it was created if it was.
func loadCreated(r *ridge.Runtime, x server.ModelFile, o ridge.Options) (*ridge.Model, error) {
	if x.Preset != nil {
		o.Template = cmp.Or(x.Preset.Template, o.Template)
		o.Context = cmp.Or(x.Preset.Context(), o.Context)
	}
	if x.Adapter != "" {
		o.MaxLoRAs = 1
	}
	m, err := r.Load(x.Path, o)
	if err != nil || x.Adapter == "" {
		return m, err
	}
	if err := m.LoadAdapter(server.AdapterName(x), x.Adapter, false); err != nil {
		return nil, errors.Join(fmt.Errorf("its adapter: %w", err), m.Close())
	}
	return m, nil
}

// Create implements server.Library. What the model that it is made of was created with itself holds where nothing else is said.
func (l *library) Create(name string, of *server.ModelFile, c ollama.Creation) error {
	if c.Quantize != "" { // which takes long, and others need not wait
		files, err := quantizedFiles(of, c)
		if err != nil {
			return err
		}
		c.Files = files
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	aliases, err := openAliases()
	if err != nil {
		return err
	}
	m := created.Model{Name: name, Files: c.Files, Adapters: c.Adapters, Template: c.Template, System: c.System, Parameters: c.Parameters, License: c.License}
	for _, x := range c.Messages {
		m.Messages = append(m.Messages, created.Message(x))
	}
	if c.Quantize != "" && of != nil {
		if of.Preset != nil {
			store, err := openCreated()
			if err != nil {
				return err
			}
			if err := inherit(store, &m, of.Name); err != nil {
				return err
			}
		}
		m.From, m.Files, of = "", c.Files, nil
	}
	return putCreated(aliases, m, of)
}

// quantizedFiles makes the weights of a model that is to be created, of another or of files that were sent, in another number format.
func quantizedFiles(of *server.ModelFile, c ollama.Creation) (map[string]string, error) {
	t, err := convert.ParseType(c.Quantize)
	if err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	store, err := openCreated()
	if err != nil {
		return nil, err
	}
	path := ""
	switch {
	case of != nil && of.Path != "":
		path = of.Path
	case of != nil:
		all, err := store.List()
		if err != nil && !errors.Is(err, created.ErrDamaged) {
			return nil, err
		}
		if i := slices.IndexFunc(all, func(x created.Model) bool { return x.Name == of.Name }); i >= 0 {
			path = cmp.Or(all[i].Path, all[i].From)
		}
		if !exists(path) {
			return nil, fmt.Errorf("quantize: %s is made of another model; quantise that", of.Name)
		}
	default:
		if len(c.Files) != 1 {
			return nil, fmt.Errorf("quantize: the model has %d files; give one GGUF file, or convert its folder with ridge convert", len(c.Files))
		}
		for _, digest := range c.Files {
			if path, err = store.BlobPath(digest); err != nil {
				return nil, err
			}
		}
	}
	digest, err := store.MakeBlob(func(out string) error {
		_, err := convert.Convert(context.Background(), path, out, convert.Options{Type: t})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	return map[string]string{"model.gguf": digest}, nil
}

// putCreated keeps a model that is made of another, or of its own files.
func putCreated(aliases *shelf.Aliases, m created.Model, of *server.ModelFile) error {
	if aliases.Names[m.Name] != "" || onHub(m.Name, "").ref != nil {
		return fmt.Errorf("%q is another name of a model, or means one of the hub; give another name", m.Name)
	}
	store, err := openCreated()
	if err != nil {
		return err
	}
	switch {
	case of == nil:
	case of.Preset == nil:
		if m.From = of.Name; onHub(m.From, "").ref == nil {
			m.From = of.Path
		}
	default:
		if err := inherit(store, &m, of.Name); err != nil {
			return err
		}
	}
	return store.Put(m)
}

// inherit has a model be made of what another was made of.
func inherit(store *created.Store, m *created.Model, of string) error {
	all, err := store.List()
	if err != nil && !errors.Is(err, created.ErrDamaged) {
		return err
	}
	i := slices.IndexFunc(all, func(x created.Model) bool { return x.Name == of })
	if i < 0 {
		return fmt.Errorf("%s is gone", of)
	}
	base := all[i]
	m.From, m.Files = base.From, base.Files
	m.Template, m.System = cmp.Or(m.Template, base.Template), cmp.Or(m.System, base.System)
	if len(m.Adapters) == 0 {
		m.Adapters = base.Adapters
	}
	if len(m.Messages) == 0 {
		m.Messages = base.Messages
	}
	m.License = append(slices.Clone(base.License), m.License...)
	parameters := map[string]json.RawMessage{}
	maps.Copy(parameters, base.Parameters)
	maps.Copy(parameters, m.Parameters)
	m.Parameters = parameters
	return nil
}

// HasBlob implements server.Library.
func (l *library) HasBlob(digest string) (bool, error) {
	store, err := openCreated()
	if err != nil {
		return false, err
	}
	return store.HasBlob(digest)
}

// spare is how many bytes of the disk files that clients send leave free.
const spare = 1 << 30

// PutBlob implements server.Library.
func (l *library) PutBlob(digest string, length int64, content io.Reader) error {
	dir, err := createdDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if free, err := disk.Free(dir); err == nil {
		if length > free-spare {
			return fmt.Errorf("the file has %s and the disk of %s has %s free, of which %s are kept; make room, or set XDG_DATA_HOME to a folder on another", size.Text(length), dir, size.Text(free), size.Text(spare))
		}
		if length < 0 {
			content = io.LimitReader(content, max(0, free-spare)) // what is cut has another digest
		}
	}
	return created.Open(dir).PutBlob(digest, content)
}

// madeOf are the created models that would be gone without a model.
func madeOf(m server.ModelFile) ([]string, error) {
	store, err := openCreated()
	if err != nil || m.Preset != nil { // what is made of a created model is made of what that is made of
		return nil, nil
	}
	all, err := store.List()
	if err != nil && !errors.Is(err, created.ErrDamaged) {
		return nil, err
	}
	var names []string
	for _, x := range all {
		if x.From != "" && calledSo(m, x.From) {
			names = append(names, x.Name)
		}
	}
	return names, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ridge-llm/ridge/internal/created"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/ollama"
)

// library lets clients change the models that were downloaded, and the user's names for models. It implements server.Library.
type library struct {
	backend string             // whose memory short names without a size are chosen by
	named   []server.ModelFile // on the command line

	mu      sync.Mutex
	pulling map[string]int // pulls under way, by repository
}

// Pull implements server.Library.
func (l *library) Pull(ctx context.Context, name string, progress func(ollama.Pulled)) error {
	aliases, err := openAliases()
	if err != nil {
		return err
	}
	if model := aliases.Names[name]; model != "" {
		name = model
	}
	n := onHub(name, l.backend)
	if n.ref == nil {
		if err := unknown(name); err != nil {
			return err
		}
		_, err := hub.ParseRef(name) // says what such names are
		return err
	}
	h, err := newHub()
	if err != nil {
		return err
	}
	defer l.begin(n.ref.Repo)()
	_, err = h.Pull(ctx, *n.ref, func(s hub.Status) {
		progress(ollama.Pulled{File: s.File, Digest: s.Digest, Done: s.Done, Total: s.Total})
	})
	return err
}

// begin notes that a pull of a repository is under way, until end is called.
func (l *library) begin(repo string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pulling == nil {
		l.pulling = map[string]int{}
	}
	l.pulling[repo]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pulling[repo]--
	}
}

// Delete implements server.Library.
func (l *library) Delete(m server.ModelFile, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	aliases, err := openAliases()
	if err != nil {
		return err
	}
	if aliases.Names[name] != "" && name != m.Name {
		return aliases.Set(name, "")
	}
	others, err := madeOf(m)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("%s was created of %s, and would be gone too; delete that first", strings.Join(others, ", "), m.Name)
	}
	for _, alias := range slices.Sorted(maps.Keys(aliases.Names)) {
		if model := aliases.Names[alias]; model == m.Name || m.Preset == nil && (model == m.Path || slices.Contains(m.Aliases, model)) { // the path of a created model is of the one that it is made of
			others = append(others, alias)
		}
	}
	switch {
	case len(others) > 0:
		return fmt.Errorf("%s is also called %s, and would be gone by that name too; delete that first", m.Name, strings.Join(others, ", "))
	case m.Pinned:
		return fmt.Errorf("%s is pinned (--pin), and stays as long as the server runs", m.Name)
	case m.Preset != nil:
		store, err := openCreated()
		if err != nil {
			return err
		}
		return store.Remove(m.Name)
	case slices.ContainsFunc(l.named, func(x server.ModelFile) bool { return x.Path == m.Path }):
		return fmt.Errorf("%s was named when the server was started, and stays as long as it runs", m.Name)
	}
	h, err := newHub()
	if err != nil {
		return err
	}
	all, err := h.List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e hub.Entry) bool {
		return e.Format == hub.Incomplete || filepath.Clean(e.Path) != filepath.Clean(m.Path)
	})
	if len(all) == 0 {
		return fmt.Errorf("%s is in a folder that the server was given (--models-dir), and not one that was downloaded; delete its files there", m.Name)
	}
	r, err := hub.ParseRef(all[0].Name)
	if err != nil {
		return err
	}
	if l.pulling[r.Repo] > 0 {
		return fmt.Errorf("a model of %s is being pulled, and may share files with %s; try again when it has come", r.Repo, m.Name)
	}
	return h.Remove(all)
}

// Copy implements server.Library: the name is one of the user's, which ridge alias lists, or of a created model another that is like it. It replaces an earlier one.
func (l *library) Copy(m server.ModelFile, as string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	aliases, err := openAliases()
	switch {
	case err != nil:
		return err
	case aliases.File == "":
		return errors.New("there is no folder for settings, where names of models are kept; set HOME or XDG_CONFIG_HOME of the server")
	case m.Preset != nil:
		return putCreated(aliases, created.Model{Name: as}, &m)
	case aliases.Names[as] == "" && onHub(as, "").ref != nil:
		return fmt.Errorf("%q means a model of the hub; give another name", as)
	}
	model := m.Name
	if onHub(model, "").ref == nil {
		model = m.Path // by which the commands know it, too
	}
	return aliases.Set(as, model)
}

package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNotHere is the error of Find for a model that is not in the cache, or not whole.
var ErrNotHere = errors.New("hub: the model has not been downloaded")

// Find is the path of a model in the cache, as it was when last pulled. It does not ask the hub.
func (h *Hub) Find(r Ref) (string, error) {
	dir := h.repoDir(r.Repo)
	commit := r.Revision
	if data, err := os.ReadFile(filepath.Join(dir, "refs", filepath.FromSlash(r.Revision))); err == nil {
		commit = strings.TrimSpace(string(data))
	}
	if !hexPattern.MatchString(commit) {
		return "", ErrNotHere
	}
	snap := filepath.Join(dir, "snapshots", commit)
	m, err := choose(r, localFiles(snap))
	if err != nil || !m.whole(snap) {
		return "", ErrNotHere
	}
	return filepath.Join(snap, filepath.FromSlash(m.open())), nil
}

// localFiles are the files of a snapshot whose blobs are there.
func localFiles(snap string) []File {
	var files []File
	// What cannot be read is not there.
	_ = filepath.WalkDir(snap, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		stat, err := os.Stat(name)
		if err != nil || !stat.Mode().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(snap, name)
		if err != nil {
			return nil
		}
		f := File{Path: filepath.ToSlash(rel), Size: stat.Size()}
		if blob, err := os.Readlink(name); err == nil {
			f.Hash = filepath.Base(blob)
		}
		files = append(files, f)
		return nil
	})
	return files
}

// whole reports whether no part of the weights is missing in a snapshot; choose sees to that for GGUF.
func (m *Model) whole(snap string) bool {
	if m.Quant != "" {
		return true
	}
	for _, f := range m.Files {
		stem := strings.TrimSuffix(f.Path, ".safetensors")
		parts := splitName.FindStringSubmatch(stem)
		if parts == nil {
			continue
		}
		n := 0
		for _, other := range m.Files {
			if strings.HasSuffix(other.Path, "-of-"+parts[2]+".safetensors") {
				n++
			}
		}
		return fmt.Sprintf("%05d", n) == parts[2]
	}
	return true
}

// Entry is a model in the cache.
type Entry struct {
	Name     string    `json:"name"`   // as ParseRef reads it
	Format   string    `json:"format"` // GGUF, safetensors, or incomplete
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"` // when it was downloaded
	Path     string    `json:"path"`     // to open

	snapshot string
	model    *Model // nil: a pull that did not end
}

// Incomplete is the format of what a pull that did not end has left of a repository.
const Incomplete = "incomplete"

// List is what is in the cache, by name: what can be opened, and what was begun.
func (h *Hub) List() ([]Entry, error) {
	dirs, err := filepath.Glob(filepath.Join(h.Dir, "models--*--*"))
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var all []Entry
	for _, dir := range dirs {
		org, name, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "models--"), "--")
		repo := org + "/" + name
		if _, err := ParseRef(repo); err != nil {
			continue
		}
		if e, ok := begun(repo, dir); ok {
			all = append(all, e)
		}
		revisions := readRefs(dir)
		snaps, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		for _, snap := range snaps {
			commit := filepath.Base(snap)
			r := Ref{Repo: repo, Revision: commit}
			if name, ok := revisions[commit]; ok {
				r.Revision = name
			}
			all = append(all, entries(r, snap)...)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// begun is what a pull that did not end has left of a repository.
func begun(repo, dir string) (Entry, bool) {
	lists, err := filepath.Glob(filepath.Join(dir, "blobs", "*"+listEnd))
	if err != nil || len(lists) == 0 {
		return Entry{}, false
	}
	e := Entry{Name: repo, Format: Incomplete, Path: dir}
	for _, list := range lists {
		if stat, err := os.Stat(list); err == nil {
			e.Bytes += stat.Size() / 4 * chunkSize
			if stat.ModTime().After(e.Modified) {
				e.Modified = stat.ModTime()
			}
		}
	}
	return e, true
}

// readRefs are the revisions of a repository that were pulled: commit to name. Of some names for one commit, main.
func readRefs(dir string) map[string]string {
	names := map[string]string{}
	root := filepath.Join(dir, "refs")
	_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(file)
		rel, bad := filepath.Rel(root, file)
		if commit := strings.TrimSpace(string(data)); err == nil && bad == nil && names[commit] != "main" {
			names[commit] = filepath.ToSlash(rel)
		}
		return nil
	})
	return names
}

// entries are the models of a snapshot.
func entries(r Ref, snap string) []Entry {
	files := localFiles(snap)
	models, _ := ggufs(files)
	format := "GGUF"
	if len(models) == 0 {
		m, err := chooseSafetensors(r, files)
		if err != nil || !m.whole(snap) {
			return nil
		}
		models, format = []*Model{m}, "safetensors"
	}
	var all []Entry
	for _, m := range models {
		r.Quant = m.Quant
		e := Entry{Name: r.String(), Format: format, Bytes: m.Bytes(), Path: filepath.Join(snap, filepath.FromSlash(m.open())), snapshot: snap, model: m}
		for _, f := range m.Files {
			if stat, err := os.Stat(filepath.Join(snap, filepath.FromSlash(f.Path))); err == nil && stat.ModTime().After(e.Modified) {
				e.Modified = stat.ModTime()
			}
		}
		all = append(all, e)
	}
	return all
}

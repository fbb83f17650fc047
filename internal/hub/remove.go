package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Matching are the models in the cache that a name means: one, or all of a repository if it names no quantisation.
func (h *Hub) Matching(r Ref) ([]Entry, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, e := range all {
		x, err := ParseRef(e.Name)
		switch {
		case err != nil || x.Repo != r.Repo:
		case e.model == nil && r.Quant == "", e.model != nil && x.Revision == r.Revision && (r.Quant == "" || e.model.called(r.Quant)):
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("hub: %s is not in %s; ridge list shows what is", r, h.Dir)
	}
	return found, nil
}

// Remove deletes models of one repository from the cache: their files, the blobs that no other snapshot has, and the
// repository when nothing is left of it.
func (h *Hub) Remove(models []Entry) error {
	for _, e := range models {
		if e.model == nil {
			if err := dropBegun(e.Path); err != nil {
				return err
			}
			continue
		}
		for _, f := range e.model.Files {
			if err := forget(filepath.Join(e.snapshot, filepath.FromSlash(f.Path))); err != nil {
				return err
			}
		}
		dir := filepath.Dir(filepath.Dir(e.snapshot))
		if err := sweep(dir); err != nil {
			return err
		}
	}
	return nil
}

// dropBegun deletes what pulls that did not end have left of a repository.
func dropBegun(dir string) error {
	for _, end := range []string{listEnd, dataEnd} {
		files, err := filepath.Glob(filepath.Join(dir, "blobs", "*"+end))
		if err != nil {
			return fmt.Errorf("hub: %w", err)
		}
		for _, f := range files {
			if err := forget(f); err != nil {
				return err
			}
		}
	}
	return sweep(dir)
}

// sweep deletes the blobs of a repository to which no snapshot links, and the repository if it has no files left.
func sweep(dir string) error {
	used := map[string]bool{}
	weights := false
	for _, f := range localFiles(filepath.Join(dir, "snapshots")) {
		used[f.Hash] = true
		weights = weights || hasFileEnding(f.Path)
	}
	if !weights {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("hub: %w", err)
		}
		return nil
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	for _, b := range blobs {
		if hexPattern.MatchString(b.Name()) && !used[b.Name()] { // others are under way
			if err := forget(filepath.Join(dir, "blobs", b.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget deletes a file that may be gone already.
func forget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

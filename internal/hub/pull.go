package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/internal/disk"
)

// Status is how far a pull has come.
type Status struct {
	File   string // that is being fetched
	Digest string // SHA-256 of the largest file, in hexadecimal; "": the hub says none
	Done   int64  // bytes of all files, those that were there before included
	Had    int64  // of them, there before
	Total  int64
}

// Progress is called with the state of a pull, several times a second and once at its end. Calls do not overlap.
type Progress func(Status)

// progressTime is how often Progress is called.
const progressTime = 200 * time.Millisecond

// Pull makes sure that a model is in the cache, as it is on the hub now, and returns the path to open. What is there already
// is not fetched again, and what an earlier Pull had begun is gone on with.
func (h *Hub) Pull(ctx context.Context, r Ref, progress Progress) (string, error) {
	h.client()
	s, err := h.look(ctx, r)
	if err != nil {
		return "", err
	}
	m, err := choose(r, s.files)
	if err != nil {
		return "", err
	}
	dir := h.repoDir(r.Repo)
	if err := os.MkdirAll(filepath.Join(dir, "blobs"), 0o755); err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	p := &pull{hub: h, ref: r, snapshot: s, model: m, dir: dir}
	if err := p.checkSpace(); err != nil {
		return "", err
	}
	stop := p.tell(progress)
	err = p.all(ctx)
	stop()
	if err != nil {
		return "", err
	}
	if err := writeRef(dir, r.Revision, s.commit); err != nil {
		return "", err
	}
	return filepath.Join(dir, "snapshots", s.commit, filepath.FromSlash(m.open())), nil
}

// pull is one Pull under way.
type pull struct {
	hub      *Hub
	ref      Ref
	snapshot *snapshot
	model    *Model
	dir      string
	had      int64
	done     atomic.Int64
	file     atomic.Pointer[string]
}

func (p *pull) blob(f File) string { return filepath.Join(p.dir, "blobs", f.Hash) }

// complete reports whether a blob is there whole. Only whole ones are called by their hash.
func (p *pull) complete(f File) bool {
	stat, err := os.Stat(p.blob(f))
	return err == nil && stat.Size() == f.Size
}

// checkSpace counts what is there already, and refuses a pull for which the disk has no room.
func (p *pull) checkSpace() error {
	var missing int64
	for _, f := range p.model.Files {
		switch {
		case p.complete(f):
			p.had += f.Size
			continue
		default:
			if stat, err := os.Stat((&journal{path: p.blob(f)}).listPath()); err == nil { // begun before
				p.had += min(stat.Size()/4*chunkSize, f.Size)
				missing += max(f.Size-stat.Size()/4*chunkSize, 0)
				continue
			}
		}
		missing += f.Size
	}
	p.done.Store(p.had)
	free, err := disk.Free(p.dir)
	if err == nil && missing > free {
		return fmt.Errorf("hub: %s needs another %s in %s, and %s are free there; make room, or set HF_HOME to another disk", p.ref, Bytes(missing), p.hub.Dir, Bytes(free))
	}
	return nil
}

// all fetches all files, one after another: a large one has several connections of its own. A file appears in
// the snapshot once it is whole.
func (p *pull) all(ctx context.Context) error {
	for _, f := range p.model.Files {
		p.file.Store(&f.Path)
		if err := p.one(ctx, f); err != nil {
			return err
		}
		if err := p.link(f); err != nil {
			return err
		}
	}
	return nil
}

// one makes sure that the blob of a file is there. Another process that fetches it is waited for.
func (p *pull) one(ctx context.Context, f File) error {
	if p.complete(f) {
		return nil
	}
	unlock, err := lock(ctx, p.hub.lockFile(p.ref.Repo, f.Hash))
	if err != nil {
		return err
	}
	defer unlock()
	if p.complete(f) {
		p.done.Add(f.Size)
		return nil
	}
	j, err := openJournal(p.blob(f), f.Size)
	if err != nil {
		return err
	}
	d := &download{hub: p.hub, ref: p.ref, file: f, address: p.snapshot.address(p.hub, f), journal: j, count: func(n int64) { p.done.Add(n) }}
	if err := d.run(ctx); err != nil {
		j.close()
		return err
	}
	if err := verify(f, io.NewSectionReader(j.data, 0, f.Size)); err != nil {
		return errors.Join(err, j.drop())
	}
	return j.commit()
}

// link lets the snapshot's file point to its blob.
func (p *pull) link(f File) error {
	name := filepath.Join(p.dir, "snapshots", p.snapshot.commit, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	up := strings.Repeat("../", strings.Count(f.Path, "/")+2)
	target := up + "blobs/" + f.Hash
	if old, err := os.Readlink(name); err == nil && old == target {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hub: %w", err)
	}
	if err := os.Symlink(target, name); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// writeRef notes which commit a revision is. A commit is its own name.
func writeRef(dir, revision, commit string) error {
	if revision == commit {
		return nil
	}
	name := filepath.Join(dir, "refs", filepath.FromSlash(revision))
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(commit), 0o644)
	}
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// tell calls progress from time to time until stop is called, and then once more.
func (p *pull) tell(progress Progress) (stop func()) {
	if progress == nil {
		return func() {}
	}
	total := p.model.Bytes()
	digest := p.model.digest()
	status := func() Status {
		s := Status{Digest: digest, Done: min(p.done.Load(), total), Had: p.had, Total: total}
		if f := p.file.Load(); f != nil {
			s.File = *f
		}
		return s
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress(status())
			case <-end:
				progress(status())
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Bytes is a size as text, in units of 1000.
func Bytes(n int64) string {
	const units = "kMGT"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	x, u := float64(n)/1000, 0
	for x >= 999.5 && u < len(units)-1 {
		x, u = x/1000, u+1
	}
	return fmt.Sprintf("%.3g %cB", x, units[u])
}

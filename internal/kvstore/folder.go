// Package kvstore keeps pages of the KV cache in files: of a folder on a disk of this host, or one that several servers share, or as objects of a bucket.
package kvstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/disk"
)

// Folder is a folder of files, one for each key, in 256 folders by the first byte of their names. A file is written under another name and renamed, so that no reader sees a
// part of it, and is never changed; what a crash leaves of one is known by its checksums. Any number of processes may use the folder, each of which removes the files that
// were longest unused when there are too many.
type Folder struct {
	name string
	dir  string
	most int64 // bytes

	mu        sync.Mutex
	total     int64 // bytes, as far as this process knows
	sweeping  bool
	fullUntil time.Time // no write is tried before
	closed    bool
	sweeps    sync.WaitGroup
}

var _ offload.Store = (*Folder)(nil)

const (
	kept      = 0.9             // of the most bytes, after a sweep
	fullFor   = 5 * time.Second // after a write that found no room
	staleTemp = time.Hour       // files under other names that are older were left by a crash
	touched   = time.Minute     // uses in so short a time count as one
	suffix    = ".kv"
	temporary = ".part"
)

// Open opens a folder, and makes it if it is not there. name is what it is called in metrics. most is how many bytes it may hold; 0: half of what is free on its file system.
func Open(name, dir string, most int64) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	probe, err := os.CreateTemp(dir, "*"+temporary)
	if err != nil {
		return nil, fmt.Errorf("kvstore: nothing can be written to %s: %w", dir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	if most == 0 {
		if most, err = disk.Free(dir); err != nil {
			return nil, fmt.Errorf("kvstore: what is free in %s is not known (%w); say how large it may become", dir, err)
		}
		most /= 2
	}
	f := &Folder{name: name, dir: dir, most: most}
	f.sweep()
	return f, nil
}

// Name implements offload.Store.
func (f *Folder) Name() string { return f.name }

// path is a key's file.
func (f *Folder) path(key kv.Key) string {
	name := hex.EncodeToString(key[:])
	return filepath.Join(f.dir, name[:2], name+suffix)
}

// Has implements offload.Store.
func (f *Folder) Has(key kv.Key) bool {
	_, err := os.Stat(f.path(key))
	return err == nil
}

// Read implements offload.Store. A file that is damaged is removed.
func (f *Folder) Read(key kv.Key, into func(parts []offload.Part) bool) (ok bool, err error) {
	path := f.path(key)
	ok, err = readFile(path, key, into)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if damaged := (*damagedError)(nil); errors.As(err, &damaged) {
		_ = os.Remove(path) // it is written again when it is computed again
	}
	if !ok {
		return false, err
	}
	now := time.Now()
	if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > touched {
		_ = os.Chtimes(path, now, now) // else it counts as unused since it was written
	}
	return true, nil
}

// Write implements offload.Store.
func (f *Folder) Write(key kv.Key, parts []offload.Part) (written int64, err error) {
	f.mu.Lock()
	full := time.Now().Before(f.fullUntil)
	f.mu.Unlock()
	if full {
		return 0, fmt.Errorf("kvstore: %s has no room", f.dir)
	}
	path, size := f.path(key), fileSize(parts)
	if size > f.most {
		return 0, fmt.Errorf("kvstore: a page takes %d bytes and %s may hold %d", size, f.dir, f.most)
	}
	old, err := os.Stat(path)
	if err == nil && old.Size() >= size {
		return 0, nil
	}
	if err = f.replace(path, key, parts); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			f.mu.Lock()
			f.fullUntil = time.Now().Add(fullFor)
			f.mu.Unlock()
		}
		return 0, fmt.Errorf("kvstore: %w", err)
	}
	if old != nil {
		size -= old.Size()
	}
	f.mu.Lock()
	f.total += size
	sweep := f.total > f.most
	f.mu.Unlock()
	if sweep {
		f.sweep()
	}
	return size, nil
}

// replace writes a file under another name and renames it.
func (f *Folder) replace(path string, key kv.Key, parts []offload.Part) error {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "*"+temporary)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(dir, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			file, err = os.CreateTemp(dir, "*"+temporary)
		}
	}
	if err != nil {
		return err
	}
	err = errors.Join(writeFile(file, key, parts), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// stored is a file of the folder.
type stored struct {
	path string
	used time.Time
	size int64
}

// sweep counts the folder's bytes, beside other work, and removes the files that were longest unused if there are too many.
func (f *Folder) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sweeping || f.closed {
		return
	}
	f.sweeping = true
	f.sweeps.Go(func() {
		files, total := f.list()
		if total > f.most {
			slices.SortFunc(files, func(a, b stored) int { return a.used.Compare(b.used) })
			for _, s := range files {
				if float64(total) <= kept*float64(f.most) {
					break
				}
				if err := os.Remove(s.path); err == nil || errors.Is(err, fs.ErrNotExist) {
					total -= s.size
				}
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total, f.sweeping = total, false
	})
}

// list is the folder's files, without those that a crash has left half-written, which it removes.
func (f *Folder) list() (files []stored, total int64) {
	folders, _ := os.ReadDir(f.dir) // what cannot be read is not counted
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		entries, _ := os.ReadDir(filepath.Join(f.dir, folder.Name()))
		for _, e := range entries {
			path := filepath.Join(f.dir, folder.Name(), e.Name())
			info, err := e.Info()
			switch {
			case err != nil || !info.Mode().IsRegular():
			case strings.HasSuffix(e.Name(), temporary):
				if time.Since(info.ModTime()) > staleTemp {
					_ = os.Remove(path) // the next sweep tries again
				}
			case strings.HasSuffix(e.Name(), suffix):
				files = append(files, stored{path, info.ModTime(), info.Size()})
				total += info.Size()
			}
		}
	}
	return files, total
}

// Bytes is how much the folder holds, as far as this process knows.
func (f *Folder) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// Close implements offload.Store.
func (f *Folder) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.sweeps.Wait()
	return nil
}

// Secret is 32 bytes that all who use a folder have alike, made by the first of them: the salts of tenants are keyed with it, so that nobody finds two that are equal.
func Secret(dir string) (secret [32]byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return secret, fmt.Errorf("kvstore: %w", err)
	}
	path := filepath.Join(dir, "secret")
	for range 2 {
		data, err := os.ReadFile(path)
		if err == nil {
			if len(data) != len(secret) {
				return secret, fmt.Errorf("kvstore: %s has %d bytes and not %d; remove the folder's files, which were kept under another secret, and it", path, len(data), len(secret))
			}
			copy(secret[:], data)
			return secret, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return secret, fmt.Errorf("kvstore: %w", err)
		}
		if err := makeSecret(dir, path); err != nil {
			return secret, fmt.Errorf("kvstore: %w", err)
		}
	}
	return secret, fmt.Errorf("kvstore: %s was removed as soon as it was made", path)
}

// makeSecret makes the file, unless another process does it first. It is whole when it has its name.
func makeSecret(dir, path string) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
	file, err := os.CreateTemp(dir, "*"+temporary)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(secret[:])
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Link(file.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

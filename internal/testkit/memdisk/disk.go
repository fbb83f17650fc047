// Package memdisk is a file system in memory that fills up, fails and loses power, for simulations of what is kept on disk. It keeps no more over a
// crash than POSIX promises: contents that were synced, and entries of directories that were synced. Of the rest a random part is kept: of the changes
// of a directory those up to a point, and of a file's writes likewise, the last of them cut anywhere.
package memdisk

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/ridge-llm/ridge/server/store"
)

// ErrPower is what everything returns from a crash on until the next start.
var ErrPower = errors.New("memdisk: the power is off")

// Disk implements store.Disk. Any number of goroutines may use it.
type Disk struct {
	mu     sync.Mutex
	rng    *rand.Rand
	dirs   map[string]*dir
	faults Faults
	start  int // counts the starts; files opened before the last are dead
	ops    int // since the last start
	dead   bool
	full   bool
	locked bool
	open   int
}

// Faults are what goes wrong until the next start.
type Faults struct {
	CrashAt  int     // the operation, counted from 1, at which the power fails; 0: none
	FullRate float64 // of writes that find no room, having written a part
	SyncRate float64 // of syncs that fail: what they were for is not durable, nor ever will be
	OnCrash  func()  // is called at the crash
}

// dir is a directory: what it has now, and what it has after a crash.
type dir struct {
	entries, durable map[string]*inode
	pending          [][]change // not durable yet, in order; the changes of one operation are made together
}

// change gives a name to a file, or takes it away (nil).
type change struct {
	name string
	node *inode
}

// inode is a file's content, now and after a crash.
type inode struct {
	data, durable []byte
	pending       []write
}

// write is bytes at an offset, or, of no bytes, a new size.
type write struct {
	at    int64
	bytes []byte
}

// New is an empty disk.
func New(rng *rand.Rand) *Disk { return &Disk{rng: rng, dirs: map[string]*dir{}} }

// Start begins a life of the process that uses the disk. After a crash what was not durable is gone, or partly there.
func (d *Disk) Start(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		d.loseWhatIsNotDurable()
	}
	d.faults, d.ops, d.dead, d.full, d.locked, d.open = f, 0, false, false, false, 0
	d.start++
}

// Crash cuts the power now.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crash()
}

// crash cuts the power, unless it is off; d.mu is held.
func (d *Disk) crash() {
	if d.dead {
		return
	}
	d.dead = true
	if d.faults.OnCrash != nil {
		d.faults.OnCrash()
	}
}

// Dead reports whether the power is off.
func (d *Disk) Dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// SetFull has no write find room until it is called with false.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Open is how many files are open.
func (d *Disk) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// loseWhatIsNotDurable is the crash; d.mu is held. Directories go by name so that a seed does the same each time.
func (d *Disk) loseWhatIsNotDurable() {
	seen := map[*inode]bool{}
	for _, name := range d.names() {
		x := d.dirs[name]
		for _, op := range x.pending[:d.rng.IntN(len(x.pending)+1)] {
			apply(x.durable, op)
		}
		x.pending = nil
		x.entries = map[string]*inode{}
		for _, file := range sorted(x.durable) {
			node := x.durable[file]
			x.entries[file] = node
			if !seen[node] {
				node.crash(d.rng)
			}
			seen[node] = true
		}
	}
}

func (d *Disk) names() []string { return sorted(d.dirs) }

func sorted[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func apply(entries map[string]*inode, op []change) {
	for _, c := range op {
		if entries[c.name] = c.node; c.node == nil {
			delete(entries, c.name)
		}
	}
}

// crash keeps some of the writes that are not durable, the last of them in part.
func (n *inode) crash(rng *rand.Rand) {
	kept := n.pending[:rng.IntN(len(n.pending)+1)]
	for i, w := range kept {
		if i == len(kept)-1 && len(w.bytes) > 0 {
			w.bytes = w.bytes[:1+rng.IntN(len(w.bytes))]
		}
		n.durable = w.apply(n.durable)
	}
	n.pending, n.data = nil, slices.Clone(n.durable)
}

func (w write) apply(data []byte) []byte {
	size := w.at + int64(len(w.bytes))
	if len(w.bytes) == 0 && size < int64(len(data)) {
		return data[:size:size]
	}
	for int64(len(data)) < size {
		data = append(data, 0)
	}
	copy(data[w.at:], w.bytes)
	return data
}

// op counts an operation; it fails once the power is off. d.mu is held.
func (d *Disk) op(what, at string) error {
	if d.dead {
		return &fs.PathError{Op: what, Path: at, Err: ErrPower}
	}
	if d.ops++; d.faults.CrashAt > 0 && d.ops >= d.faults.CrashAt {
		d.crash()
		return &fs.PathError{Op: what, Path: at, Err: ErrPower}
	}
	return nil
}

// room is an error if a write finds none; d.mu is held.
func (d *Disk) room(what, at string) error {
	if d.full || d.rng.Float64() < d.faults.FullRate {
		return &fs.PathError{Op: what, Path: at, Err: syscall.ENOSPC}
	}
	return nil
}

func missing(what, at string) error {
	return &fs.PathError{Op: what, Path: at, Err: fs.ErrNotExist}
}

// change makes the changes of one operation in a directory, which must exist; d.mu is held.
func (d *Disk) change(in string, op ...change) {
	x := d.dirs[in]
	apply(x.entries, op)
	x.pending = append(x.pending, op)
}

// node is what a path names; d.mu is held.
func (d *Disk) node(at string) *inode {
	if x := d.dirs[filepath.Dir(at)]; x != nil {
		return x.entries[filepath.Base(at)]
	}
	return nil
}

// MkdirAll implements store.Disk. Directories are durable at once.
func (d *Disk) MkdirAll(at string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("mkdir", at); err != nil {
		return err
	}
	for ; d.dirs[at] == nil; at = filepath.Dir(at) {
		d.dirs[at] = &dir{entries: map[string]*inode{}, durable: map[string]*inode{}}
	}
	return nil
}

// ReadDir implements store.Disk.
func (d *Disk) ReadDir(at string) (all []fs.DirEntry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("readdir", at); err != nil {
		return nil, err
	}
	x := d.dirs[at]
	if x == nil {
		return nil, missing("readdir", at)
	}
	for _, name := range sorted(x.entries) {
		all = append(all, entry(name))
	}
	return all, nil
}

// entry is a regular file in a directory.
type entry string

// Name implements fs.DirEntry.
func (e entry) Name() string { return string(e) }

// IsDir implements fs.DirEntry.
func (e entry) IsDir() bool { return false }

// Type implements fs.DirEntry.
func (e entry) Type() fs.FileMode { return 0 }

// Info implements fs.DirEntry.
func (e entry) Info() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// Rename implements store.Disk.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("rename", from); err != nil {
		return err
	}
	node := d.node(from)
	switch {
	case node == nil || d.dirs[filepath.Dir(to)] == nil:
		return missing("rename", from)
	case filepath.Dir(from) == filepath.Dir(to):
		d.change(filepath.Dir(to), change{filepath.Base(from), nil}, change{filepath.Base(to), node})
	default:
		d.change(filepath.Dir(to), change{filepath.Base(to), node})
		d.change(filepath.Dir(from), change{filepath.Base(from), nil})
	}
	return nil
}

// Link implements store.Disk.
func (d *Disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.op("link", to), d.room("link", to)); err != nil {
		return err
	}
	switch node := d.node(from); {
	case d.node(to) != nil:
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	case node == nil || d.dirs[filepath.Dir(to)] == nil:
		return missing("link", from)
	default:
		d.change(filepath.Dir(to), change{filepath.Base(to), node})
		return nil
	}
}

// Remove implements store.Disk.
func (d *Disk) Remove(at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("remove", at); err != nil {
		return err
	}
	if d.node(at) == nil {
		return missing("remove", at)
	}
	d.change(filepath.Dir(at), change{filepath.Base(at), nil})
	return nil
}

// SyncDir implements store.Disk.
func (d *Disk) SyncDir(at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("sync", at); err != nil {
		return err
	}
	x := d.dirs[at]
	if x == nil {
		return missing("sync", at)
	}
	if d.rng.Float64() < d.faults.SyncRate { // what it was for may still become durable
		return &fs.PathError{Op: "sync", Path: at, Err: syscall.EIO}
	}
	for _, op := range x.pending {
		apply(x.durable, op)
	}
	x.pending = nil
	return nil
}

// Files are the paths of all files that there are now.
func (d *Disk) Files() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.names() {
		for _, file := range sorted(d.dirs[name].entries) {
			all = append(all, strings.TrimPrefix(path.Join(name, file), "/"))
		}
	}
	return all
}

var _ store.Disk = (*Disk)(nil)

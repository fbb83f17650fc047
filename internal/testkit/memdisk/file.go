package memdisk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/ridge-llm/ridge/server/store"
)

// file is an open file.
type file struct {
	disk   *Disk
	node   *inode
	name   string
	start  int
	at     int64
	closed bool
}

// OpenFile implements store.Disk.
func (d *Disk) OpenFile(at string, flag int, _ fs.FileMode) (store.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("open", at); err != nil {
		return nil, err
	}
	node := d.node(at)
	if node == nil {
		if flag&os.O_CREATE == 0 || d.dirs[filepath.Dir(at)] == nil {
			return nil, missing("open", at)
		}
		if err := d.room("open", at); err != nil {
			return nil, err
		}
		node = &inode{}
		d.change(filepath.Dir(at), change{filepath.Base(at), node})
	} else if flag&os.O_TRUNC != 0 {
		node.write(write{})
	}
	d.open++
	return &file{disk: d, node: node, name: at, start: d.start}, nil
}

func (n *inode) write(w write) {
	w.bytes = slices.Clone(w.bytes)
	n.data = w.apply(n.data)
	n.pending = append(n.pending, w)
}

// op counts an operation on the file, which must be open, of this life; f.disk.mu is held.
func (f *file) op(what string) error {
	switch {
	case f.closed:
		return &fs.PathError{Op: what, Path: f.name, Err: fs.ErrClosed}
	case f.start != f.disk.start:
		return &fs.PathError{Op: what, Path: f.name, Err: ErrPower}
	}
	return f.disk.op(what, f.name)
}

// Read implements io.Reader.
func (f *file) Read(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.op("read"); err != nil {
		return 0, err
	}
	if f.at >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[f.at:])
	f.at += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	}
	if offset < 0 {
		return 0, fmt.Errorf("memdisk: seeking %s to %d", f.name, offset)
	}
	f.at = offset
	return offset, nil
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n, err := f.put(b, f.at)
	f.at += int64(n)
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.put(b, at)
}

// put writes what there is room for. At a crash some of it may have been written.
func (f *file) put(b []byte, at int64) (int, error) {
	was := f.disk.dead
	if err := f.op("write"); err != nil {
		if !was && f.disk.dead && len(b) > 0 {
			f.node.write(write{at, b})
		}
		return 0, err
	}
	err := f.disk.room("write", f.name)
	if err != nil {
		b = b[:f.disk.rng.IntN(len(b)+1)]
	}
	if len(b) > 0 {
		f.node.write(write{at, b})
	}
	return len(b), err
}

// Truncate implements store.DiskFile.
func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.op("truncate"); err != nil {
		return err
	}
	f.node.write(write{at: size})
	return nil
}

// Sync implements store.DiskFile. After a sync that fails the system holds what was written and takes it for durable, as Linux does.
func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.op("sync"); err != nil {
		return err
	}
	if f.disk.rng.Float64() < f.disk.faults.SyncRate {
		f.node.pending = nil
		return &fs.PathError{Op: "sync", Path: f.name, Err: syscall.EIO}
	}
	for _, w := range f.node.pending {
		f.node.durable = w.apply(f.node.durable)
	}
	f.node.pending = nil
	return nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	if f.closed = true; f.start == f.disk.start {
		f.disk.open--
	}
	return nil
}

// Lock implements store.Disk.
func (d *Disk) Lock(at string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op("lock", at); err != nil {
		return nil, err
	}
	if d.locked {
		return nil, errors.New("another process uses it")
	}
	d.locked = true
	start := d.start
	return closer(sync.OnceValue(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if start == d.start {
			d.locked = false
		}
		return nil
	})), nil
}

type closer func() error

// Close implements io.Closer.
func (c closer) Close() error { return c() }

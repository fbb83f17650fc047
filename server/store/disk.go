package store

import (
	"io"
	"io/fs"
	"os"

	"github.com/ridge-llm/ridge/internal/regular"
)

// Disk is the file system that a store is on: the system's, or in simulations one that fails and loses power.
type Disk interface {
	// OpenFile is os.OpenFile, of a regular file.
	OpenFile(path string, flag int, perm fs.FileMode) (DiskFile, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	MkdirAll(path string, perm fs.FileMode) error
	Rename(from, to string) error
	Link(from, to string) error
	Remove(path string) error
	// SyncDir makes what was created, renamed and removed in a directory durable.
	SyncDir(path string) error
	// Lock makes a file if there is none, and locks it until it is closed or the process ends.
	Lock(path string) (io.Closer, error)
}

// DiskFile is an open file of a Disk.
type DiskFile interface {
	io.ReadSeekCloser
	io.Writer
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// osDisk is the system's file system.
type osDisk struct{}

// OpenFile implements Disk.
func (osDisk) OpenFile(path string, flag int, perm fs.FileMode) (DiskFile, error) {
	if err := regular.Check(path); err != nil { // opening a FIFO would wait without end
		return nil, err
	}
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadDir implements Disk.
func (osDisk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// MkdirAll implements Disk.
func (osDisk) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }

// Rename implements Disk.
func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

// Link implements Disk.
func (osDisk) Link(from, to string) error { return os.Link(from, to) }

// Remove implements Disk.
func (osDisk) Remove(path string) error { return os.Remove(path) }

// SyncDir implements Disk.
func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

// Lock implements Disk.
func (osDisk) Lock(path string) (io.Closer, error) { return lockFile(path) }

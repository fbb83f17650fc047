// Package mmap gives the bytes of a file without reading them: pages come in when they are touched, and the kernel may
// drop them again under pressure, because the file itself is their backing store.
//
// Replacing a model file by renaming a new one over it is safe: the old contents stay until Close. A file that is cut while it is open
// is not: touching a page past the new end raises SIGBUS, which ends the program unless the goroutine does it in Reading. Changed says whether
// what was read can be trusted.
package mmap

import (
	"errors"
	"io/fs"
	"os"
)

// File is one open file, read-only.
type File struct {
	data  []byte
	close func([]byte) error
	file  *os.File    // nil: the contents are in memory for good
	info  fs.FileInfo // of file, when it was opened
}

// Bytes is the whole file. It must not be written (on Unix that faults) nor used after Close.
func (f *File) Bytes() []byte { return f.data }

// Close gives the memory back; every slice taken from Bytes is invalid from then on. A second Close does nothing.
func (f *File) Close() error {
	var all error
	if f.close != nil {
		all = f.close(f.data)
	}
	if f.file != nil {
		all = errors.Join(all, f.file.Close())
	}
	f.close, f.data, f.file = nil, nil, nil
	return all
}

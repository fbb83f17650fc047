// Package mmap gives the bytes of a file without reading them: pages come in when they are touched, and the kernel may
// drop them again under pressure, because the file itself is their backing store.
//
// A mapped file must not shrink while it is open. Touching a page past the new end raises SIGBUS, which Go reports as
// "fatal error: fault" with the goroutine's stack and which no recover catches. Replacing a model file by renaming a new
// one over it is safe: the old contents stay until Close.
package mmap

// File is one open file, read-only.
type File struct {
	data  []byte
	close func([]byte) error
}

// Bytes is the whole file. It must not be written (on Unix that faults) nor used after Close.
func (f *File) Bytes() []byte { return f.data }

// Close gives the memory back; every slice taken from Bytes is invalid from then on. A second Close does nothing.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	close, data := f.close, f.data
	f.close, f.data = nil, nil
	return close(data)
}

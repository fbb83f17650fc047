package mmap

import (
	"errors"
	"unsafe"
)

// Set is the files of one model.
type Set []*File

// Close closes every file.
func (s Set) Close() error {
	var all []error
	for _, f := range s {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}

// Release says that part, a window into one of the files, will not be read soon: its pages leave this process and come
// back from the file when they are touched again. Bytes that are of no file of the set are left alone.
func (s Set) Release(part []byte) {
	if len(part) == 0 {
		return
	}
	start := uintptr(unsafe.Pointer(&part[0]))
	for _, f := range s {
		if len(f.data) == 0 {
			continue
		}
		base := uintptr(unsafe.Pointer(&f.data[0]))
		if start >= base && start+uintptr(len(part)) <= base+uintptr(len(f.data)) {
			from := int(start - base)
			f.release(from, from+len(part))
			return
		}
	}
}

//go:build unix

package mmap

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Open maps the regular file at path. Its cost does not depend on the file's size.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping outlives the descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open %s: not a regular file", path)
	case size == 0: // which the system refuses to map
		return &File{}, nil
	case size > math.MaxInt:
		return nil, fmt.Errorf("open %s: %d bytes are more than this machine can address", path, size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	return &File{data: data, close: unix.Munmap}, nil
}

// release drops the whole pages within bytes [from, to) of the mapping.
func (f *File) release(from, to int) {
	page := os.Getpagesize()
	from, to = (from+page-1)/page*page, to/page*page
	if from < to {
		_ = unix.Madvise(f.data[from:to], unix.MADV_DONTNEED) // advice: nothing is lost if it is not taken
	}
}

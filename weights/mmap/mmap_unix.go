//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/internal/regular"
)

// Open maps the regular file at path. Its cost does not depend on the file's size.
func Open(path string) (*File, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := mapped(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func mapped(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{file: file, info: info}
	size := info.Size()
	switch {
	case size == 0: // which the system refuses to map
		return f, nil
	case size > math.MaxInt:
		return nil, fmt.Errorf("open %s: %d bytes are more than this machine can address", file.Name(), size)
	}
	if f.data, err = unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, &os.PathError{Op: "mmap", Path: file.Name(), Err: err}
	}
	f.close = unix.Munmap
	return f, nil
}

// release drops the whole pages within bytes [from, to) of the mapping.
func (f *File) release(from, to int) {
	page := os.Getpagesize()
	from, to = (from+page-1)/page*page, to/page*page
	if from < to {
		_ = unix.Madvise(f.data[from:to], unix.MADV_DONTNEED) // advice: nothing is lost if it is not taken
	}
}

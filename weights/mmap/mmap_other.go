//go:build !unix

package mmap

import "github.com/ridge-llm/ridge/internal/regular"

// Open reads the whole file at path into memory, on systems whose mappings Ridge does not use.
func Open(path string) (*File, error) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &File{data: data}, nil
}

// release has nothing to drop: the memory is all there is of the file.
func (f *File) release(from, to int) {}

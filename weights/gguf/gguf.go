// Package gguf reads and writes GGUF files, versions 2 and 3, little endian, as github.com/ggml-org/ggml/docs/gguf.md
// describes them:
//
//	"GGUF"  version u32  tensors u64  pairs u64
//	pairs ×    key, type u32, value
//	tensors ×  name, dimensions u32, sizes u64 (fastest first), type u32, offset u64
//	padding to the alignment, then the tensors' data, each padded likewise; offsets count from here
//
// Opening a file reads its header only. Tensor data are windows into the mapped file.
package gguf

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/mmap"
)

// order is the byte order of everything in a file.
var order = binary.LittleEndian

// File is an open GGUF file, or the parts of a split one taken as a whole.
type File struct {
	Version   int
	Alignment int // of tensor data, bytes

	// Keys holds the metadata keys in the order of the file. A value in Metadata is a string, bool, uint8 … uint64,
	// int8 … int64, float32 or float64; an array is a slice of one of these, and an array of arrays is a []any of such.
	Keys     []string
	Metadata map[string]any

	Tensors []Tensor // in the order of the file

	maps mmap.Set
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Format quant.Format
	Shape  []int  // slowest dimension first: the reverse of GGUF's own order, the order of everything else in Ridge
	Data   []byte // a window into the file: read-only, gone after Close
}

// Close unmaps the file. Tensor data must not be used afterwards; metadata may.
func (f *File) Close() error {
	err := f.maps.Close()
	f.maps = nil
	return err
}

// Release says that a tensor's data will not be read soon; see mmap.Set.
func (f *File) Release(data []byte) { f.maps.Release(data) }

// Changed is an error once a file's contents are not what they were when it was opened; see mmap.File.
func (f *File) Changed() error { return f.maps.Changed() }

// Replaced reports whether opening the file again would give other contents.
func (f *File) Replaced() bool { return f.maps.Replaced() }

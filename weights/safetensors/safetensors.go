// Package safetensors reads files of the safetensors format (github.com/huggingface/safetensors):
//
//	header length u64, little endian
//	header, JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [from, to]}, …, "__metadata__": {"k": "v"}}
//	data; offsets count from its start, and the tensors fill it without a gap
//
// and sharded sets of them with their model.safetensors.index.json. Opening reads headers only; tensor data are windows
// into the mapped files.
package safetensors

import (
	"fmt"

	"github.com/ridge-llm/ridge/weights/mmap"
)

// File is an open safetensors file, or the shards of a set taken as a whole.
type File struct {
	Metadata map[string]string // of the header's __metadata__; of a set, the first shard's
	Tensors  []Tensor          // in the order of the data; of a set, shard by shard

	maps mmap.Set
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // slowest dimension first; empty for a single number
	Data  []byte // a window into the file: read-only, gone after Close, and at any address, aligned or not
}

// Open maps the file at path and reads its header. Any fault of the file is an error of one sentence with its path.
func Open(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := parse(m.Bytes())
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	f.maps = mmap.Set{m}
	return f, nil
}

// Close unmaps the files. Tensor data must not be used afterwards.
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

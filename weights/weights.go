// Package weights opens a model as it lies on disk, a GGUF file or a Hugging Face directory, and hands out its parts:
// tensors by name as windows into the mapped files, and whatever describes the model. It reads what is asked for and
// knows no architectures.
package weights

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// Kind says how a model is stored, and with it the names its tensors and settings go by.
type Kind string

// The kinds of model.
const (
	GGUF        Kind = "gguf" // settings in Metadata, tensors named as llama.cpp names them
	HuggingFace Kind = "hf"   // settings in Config, tensors named as transformers names them
)

// Source is an open model.
type Source struct {
	Path string // as given to Open
	Kind Kind

	// Of a GGUF file: its metadata (see gguf.File for the types of values) and its keys in order.
	Metadata map[string]any
	Keys     []string

	// Of a Hugging Face directory: config.json. Nil for a .safetensors file that has none beside it.
	Config []byte

	dir     string // where a Hugging Face model's other files lie
	tensors []tensor
	byName  map[string]int
	files   files
	beside  beside
}

// files are the open files of weights, of either kind.
type files interface {
	Release(part []byte)
	Changed() error
	Replaced() bool
	Close() error
}

// Info describes a tensor.
type Info struct {
	Name  string
	DType string // "Q4_K", "BF16", "I32" …
	Shape []int  // slowest dimension first; empty for a single number
}

// tensor is one tensor of either kind of file.
type tensor struct {
	Info
	format quant.Format // Invalid for a dtype that is bytes to Ridge, such as I32
	data   []byte
}

// index makes tensors findable by name; readers have made sure that names are unique.
func (s *Source) index() {
	s.byName = make(map[string]int, len(s.tensors))
	for i, t := range s.tensors {
		s.byName[t.Name] = i
	}
}

// Dir is where a Hugging Face model's other files lie; "" for a GGUF file.
func (s *Source) Dir() string { return s.dir }

// Names lists the tensors in the order of the file.
func (s *Source) Names() []string {
	names := make([]string, len(s.tensors))
	for i, t := range s.tensors {
		names[i] = t.Name
	}
	return names
}

// Info describes a tensor, and reports whether there is one of that name.
func (s *Source) Info(name string) (Info, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Info{}, false
	}
	return s.tensors[i].Info, true
}

// Tensor is the tensor of that name as a matrix: the last dimension makes the columns, all others together the rows; a
// vector is one row. Its data are a window into the file, read-only and gone after Close.
func (s *Source) Tensor(name string) (quant.Tensor, error) {
	info, data, err := s.Raw(name)
	if err != nil {
		return quant.Tensor{}, err
	}
	format := s.tensors[s.byName[name]].format
	if format == quant.Invalid {
		return quant.Tensor{}, fmt.Errorf("weights: %s: tensor %q is in %s, which holds no weights Ridge can read", s.Path, name, info.DType)
	}
	rows, cols := 1, 1
	for i, n := range info.Shape {
		if i < len(info.Shape)-1 {
			rows *= n
		} else {
			cols = n
		}
	}
	t, err := quant.NewTensor(format, rows, cols, data)
	if err != nil {
		return quant.Tensor{}, fmt.Errorf("weights: %s: tensor %q: %w", s.Path, name, err)
	}
	return t, nil
}

// Raw is the description and the bytes of a tensor of any dtype, under the same rules as Tensor.
func (s *Source) Raw(name string) (Info, []byte, error) {
	i, ok := s.byName[name]
	if !ok {
		return Info{}, nil, fmt.Errorf("weights: %s: there is no tensor %q among its %d", s.Path, name, len(s.tensors))
	}
	return s.tensors[i].Info, s.tensors[i].data, nil
}

// Release says that some bytes of a tensor will not be read soon: they leave this process's memory and come back from the
// file when they are touched again. Bytes that are of no file are left alone.
func (s *Source) Release(part []byte) {
	s.files.Release(part)
}

// Close unmaps the files; no tensor may be used afterwards.
func (s *Source) Close() error { return s.files.Close() }

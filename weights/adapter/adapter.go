// Package adapter reads low-rank adapters as they lie on disk: the folders of PEFT and llama.cpp's GGUF files. What it gives names the
// modules of the base model as the files do; package model knows which matrices they are.
package adapter

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// Adapter is an open adapter. Its matrices are windows into the mapped file.
type Adapter struct {
	Path string
	Kind weights.Kind // GGUF: modules go by the names of the base's tensors there, "blk.0.attn_q.weight"; else by transformers'
	Base string       // the model that it was made for, as its configuration says; a relative path is relative to the adapter's folder
	Arch string       // of the base, in GGUF's naming; "" where the file does not say

	Rank    int // the largest
	Modules map[string]*Module
	Config  *Config // of a PEFT folder

	// Invocation is the tokens behind which an activated adapter (aLoRA, arXiv:2504.12397) acts; empty: it acts on all tokens.
	Invocation []int32

	source *weights.Source
}

// Module is what an adapter has for one matrix.
type Module struct {
	A, B      quant.Tensor // [rank, in], [out, rank]; of embeddings, [vocab, rank], [hidden, rank]
	Scale     float32
	Magnitude []float32    // DoRA's [out]; nil: there is none
	Bias      []float32    // [out] of the second product; nil: there is none
	Saved     quant.Tensor // takes the place of the matrix; no data: there is none
	SavedBias []float32
	Rows      quant.Tensor // take the places of rows Tokens of a table
	Tokens    []int32      // ascending
	Table     bool         // the module is a table of embeddings
	Base      quant.Tensor // a copy of the base's matrix that the file has beside the product
	// Experts is the matrices of a stack that the product is of: A and B have those of expert e in rows from e × rank on, and in columns e, e + experts and so
	// on (PEFT's target_parameters), or of a GGUF file both in rows. 0: it is of one matrix.
	Experts int
}

// Open opens an adapter: a folder with adapter_config.json, or a GGUF file.
func Open(path string) (*Adapter, error) {
	a, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := a.numbers(false, runtime.GOMAXPROCS(0)); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Read reads an adapter, in so many goroutines, into memory of its own: the file is closed then, and may be replaced.
func Read(path string, goroutines int) (*Adapter, error) {
	a, err := open(path)
	if err != nil {
		return nil, err
	}
	defer a.source.Close()
	return a, a.numbers(true, goroutines)
}

// open finds out what there is; the numbers of matrices have not been looked at.
func open(path string) (*Adapter, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	if stat.IsDir() {
		return openPEFT(path)
	}
	if filepath.Base(path) == configFile || filepath.Base(path) == weightsFile {
		return openPEFT(filepath.Dir(path))
	}
	return openGGUF(path)
}

// Is reports whether there is an adapter at path, by names and the head of a GGUF file alone.
func Is(path string) bool {
	if _, err := os.Stat(filepath.Join(path, configFile)); err == nil {
		return true
	}
	s, err := weights.Open(path)
	if err != nil {
		return false
	}
	defer s.Close()
	kind, _ := s.Metadata[typeKey].(string)
	return s.Kind == weights.GGUF && kind == "adapter"
}

// Names lists the modules in order.
func (a *Adapter) Names() []string {
	names := make([]string, 0, len(a.Modules))
	for n := range a.Modules {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Close unmaps the file; nothing of the adapter may be used afterwards.
func (a *Adapter) Close() error { return a.source.Close() }

// fail is an error about the adapter's file.
func (a *Adapter) fail(format string, args ...any) error {
	return fmt.Errorf("adapter: %s: %s", a.Path, fmt.Sprintf(format, args...))
}

// module is the module of a name, made when it is first asked for.
func (a *Adapter) module(name string) *Module {
	if a.Modules[name] == nil {
		a.Modules[name] = &Module{}
	}
	return a.Modules[name]
}

// vector reads a tensor of one row.
func (a *Adapter) vector(name string) ([]float32, error) {
	t, err := a.source.Tensor(name)
	if err != nil {
		return nil, err
	}
	if t.Rows > 1 && t.Cols > 1 { // older files have magnitudes as [out, 1]
		return nil, a.fail("tensor %s is %d × %d, and a vector is wanted", name, t.Rows, t.Cols)
	}
	v := t.Floats()
	return v, finite(a, name, v)
}

// matrix reads a tensor of floats.
func (a *Adapter) matrix(name string) (quant.Tensor, error) {
	t, err := a.source.Tensor(name)
	if err != nil {
		return quant.Tensor{}, err
	}
	if !slices.Contains([]quant.Format{quant.F32, quant.F16, quant.BF16}, t.Format) {
		if t, err = t.As(quant.F32); err != nil {
			return quant.Tensor{}, a.fail("tensor %s: %v", name, err)
		}
	}
	return t, nil
}

// check says what is wrong with a module whose tensors have all been read.
func (a *Adapter) check(name string, m *Module) error {
	hasA, hasB := len(m.A.Data) > 0, len(m.B.Data) > 0
	rank := m.A.Rows
	if m.Table {
		rank = m.A.Cols
	}
	switch {
	case hasA != hasB:
		return a.fail("module %s has one of lora_A and lora_B and lacks the other", name)
	case hasA && m.Experts > 0 && a.Kind == weights.GGUF && (m.A.Rows != m.Experts*m.B.Cols || m.B.Rows%m.Experts != 0):
		return a.fail("module %s: A has %d rows and B is %d × %d, which are not those of %d experts", name, m.A.Rows, m.B.Rows, m.B.Cols, m.Experts)
	case hasA && m.B.Cols != rank && (m.Experts == 0 || a.Kind != weights.GGUF):
		return a.fail("module %s: A has rank %d and B %d", name, rank, m.B.Cols)
	case !hasA && (m.Magnitude != nil || m.Bias != nil || len(m.Base.Data) > 0):
		return a.fail("module %s has a magnitude, a bias or a base layer and no lora_A and lora_B", name)
	case m.Magnitude != nil && (m.Table || len(m.Magnitude) != m.B.Rows):
		return a.fail("module %s: a magnitude of %d numbers for a matrix of %d rows; DoRA of embeddings is not supported", name, len(m.Magnitude), m.B.Rows)
	case m.Bias != nil && len(m.Bias) != m.B.Rows:
		return a.fail("module %s: a bias of %d numbers for a matrix of %d rows", name, len(m.Bias), m.B.Rows)
	case m.Tokens != nil && m.Rows.Rows != len(m.Tokens):
		return a.fail("module %s has %d rows of trained tokens and trainable_token_indices names %d", name, m.Rows.Rows, len(m.Tokens))
	}
	a.Rank = max(a.Rank, rank/max(m.Experts, 1))
	return nil
}

// Package imatrix reads and writes importance matrices as llama.cpp does (github.com/ggml-org/llama.cpp, tools/imatrix): for each matrix of a model,
// by its name in GGUF, what errors in its columns count. There are two kinds of files, both read; a name that ends in .gguf is written as GGUF.
//
//	.dat   entries i32; of each: length of name i32, name, calls i32, values i32, values × f32, mean squares times calls;
//	       behind them: chunks i32, length of the text's name i32, that name
//	.gguf  general.type "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size;
//	       tensors NAME.in_sum2 [matrices, columns], sums of squares, and NAME.counts [matrices, 1], rows that were summed
package imatrix

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// Matrix is the importances of a model's matrices.
type Matrix struct {
	Entries   map[string]Entry // by GGUF's names: "blk.0.attn_q.weight"
	Datasets  []string         // the files of the texts
	Chunks    int              // of the text
	ChunkSize int              // tokens of a chunk
}

// Entry is what is known of a matrix's inputs, or of those of each of several matrices, such as experts.
type Entry struct {
	Squares []float32 // sums of squares of the columns, matrix by matrix
	Counts  []float32 // rows that were summed, of each matrix
}

// Means is the mean square of each column, matrix by matrix; 1 of a matrix that no rows came to.
func (e Entry) Means() []float32 {
	x := make([]float32, len(e.Squares))
	cols := len(e.Squares) / len(e.Counts)
	for i, v := range e.Squares {
		if n := e.Counts[i/cols]; n > 0 {
			x[i] = v / n
		} else {
			x[i] = 1
		}
	}
	return x
}

// ExpertCounts is how many rows came to each matrix of stacks, such as those of experts.
func (m *Matrix) ExpertCounts() map[string][]float32 {
	all := map[string][]float32{}
	for name, e := range m.Entries {
		if len(e.Counts) > 1 {
			all[name] = e.Counts
		}
	}
	return all
}

// names lists the entries in the order of their names.
func (m *Matrix) names() []string { return slices.Sorted(maps.Keys(m.Entries)) }

// check says which entry cannot be used.
func (m *Matrix) check() error {
	for _, name := range m.names() {
		e := m.Entries[name]
		if len(e.Counts) == 0 || len(e.Squares) == 0 || len(e.Squares)%len(e.Counts) != 0 {
			return fmt.Errorf("entry %s has %d sums and %d counts, which do not fit together", name, len(e.Squares), len(e.Counts))
		}
		for i, v := range append(slices.Clone(e.Squares), e.Counts...) {
			if d := float64(v); !(d >= 0) || math.IsInf(d, 0) {
				return fmt.Errorf("number %d of entry %s is %g, and sums of squares are wanted", i, name, v)
			}
		}
	}
	return nil
}

// Read reads a file of either kind.
func Read(path string) (*Matrix, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("imatrix: %w", err)
	}
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("imatrix: %s: %w", path, err)
	}
	var m *Matrix
	if string(magic) == "GGUF" {
		m, err = readGGUF(path)
	} else {
		m, err = readDat(path)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("imatrix: %s: %w", path, err)
	}
	return m, nil
}

// The tensors of an entry in a GGUF file.
const (
	sums   = ".in_sum2"
	counts = ".counts"
)

func readGGUF(path string) (*Matrix, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if kind, _ := f.Metadata["general.type"].(string); kind != "imatrix" {
		return nil, fmt.Errorf("it is a GGUF file of the type %q, and imatrix is wanted", kind)
	}
	m := &Matrix{Entries: map[string]Entry{}}
	m.Datasets, _ = f.Metadata["imatrix.datasets"].([]string)
	chunks, _ := f.Metadata["imatrix.chunk_count"].(uint32)
	size, _ := f.Metadata["imatrix.chunk_size"].(uint32)
	m.Chunks, m.ChunkSize = int(chunks), int(size)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, isSum := strings.CutSuffix(t.Name, sums)
		name, isCount := strings.CutSuffix(name, counts)
		if !isSum && !isCount {
			continue
		}
		if t.Format != quant.F32 {
			return nil, fmt.Errorf("tensor %s is in %s, and F32 is wanted", t.Name, t.Format)
		}
		x := make([]float32, len(t.Data)/4)
		quant.Decode(quant.F32, x, t.Data)
		e := m.Entries[name]
		if isSum {
			e.Squares = x
		} else {
			e.Counts = x
		}
		m.Entries[name] = e
	}
	return m, nil
}

// dat reads the older kind of file.
type dat struct {
	data []byte
	err  error
}

func (d *dat) bytes(n int, what string) []byte {
	if d.err == nil && (n < 0 || n > len(d.data)) {
		d.err = fmt.Errorf("%s would take %d bytes, and %d are left; it is cut short, or no importance matrix", what, n, len(d.data))
	}
	if d.err != nil {
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *dat) number(what string) int {
	b := d.bytes(4, what)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func readDat(path string) (*Matrix, error) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &dat{data: data}
	m := &Matrix{Entries: map[string]Entry{}}
	for i, n := 0, d.number("the number of entries"); i < n && d.err == nil; i++ {
		name := string(d.bytes(d.number("a name's length"), "a name"))
		calls := float32(d.number("calls of " + name))
		size := d.number("the size of " + name)
		if size < 0 || size > len(d.data)/4 {
			size = len(d.data) + 1 // more than there is: bytes says so
		}
		values := d.bytes(4*size, "entry "+name)
		if d.err != nil {
			break
		}
		if _, twice := m.Entries[name]; twice {
			return nil, fmt.Errorf("entry %s is there twice", name)
		}
		e := Entry{Squares: make([]float32, size), Counts: []float32{max(calls, 1)}}
		quant.Decode(quant.F32, e.Squares, values)
		m.Entries[name] = e
	}
	if d.err == nil && len(d.data) >= 4 { // older files end here
		m.Chunks = d.number("chunks")
		if len(d.data) >= 4 {
			m.Datasets = []string{string(d.bytes(d.number("a name's length"), "the text's name"))}
		}
	}
	return m, d.err
}

// Write writes a file, as GGUF if its name ends so.
func (m *Matrix) Write(path string) error {
	return weights.WriteFile(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".gguf") {
			return m.writeGGUF(w)
		}
		return m.writeDat(w)
	})
}

func (m *Matrix) writeGGUF(w io.Writer) error {
	keys := []string{"general.type", "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"}
	meta := map[string]any{keys[0]: "imatrix", keys[1]: append([]string{}, m.Datasets...), keys[2]: uint32(m.Chunks), keys[3]: uint32(m.ChunkSize)}
	var list []gguf.Output
	add := func(name string, rows int, x []float32) {
		data := floats(x)
		list = append(list, gguf.Output{Name: name, Format: quant.F32, Shape: []int{rows, len(x) / rows}, Data: func(w io.Writer) error { _, err := w.Write(data); return err }})
	}
	for _, name := range m.names() {
		e := m.Entries[name]
		add(name+sums, len(e.Counts), e.Squares)
		add(name+counts, len(e.Counts), e.Counts)
	}
	return gguf.Write(w, keys, meta, list)
}

func (m *Matrix) writeDat(w io.Writer) error {
	var b []byte
	number := func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(int32(n))) }
	text := func(s string) { number(len(s)); b = append(b, s...) }
	number(len(m.Entries))
	size := max(m.ChunkSize, 1)
	for _, name := range m.names() {
		e := m.Entries[name]
		calls := (int(slices.Max(e.Counts)) + size - 1) / size
		text(name)
		number(max(calls, 1))
		number(len(e.Squares))
		x := e.Means()
		for i := range x {
			x[i] *= float32(max(calls, 1))
		}
		b = append(b, floats(x)...)
	}
	number(m.Chunks)
	text(strings.Join(m.Datasets, " "))
	_, err := w.Write(b)
	return err
}

// floats is numbers in F32.
func floats(x []float32) []byte {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

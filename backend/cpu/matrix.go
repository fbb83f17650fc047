package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// matrix is a weight of more than one row.
type matrix struct {
	quant.Tensor               // in the file: what embeddings read
	weights      *gemm.Weights // what matmuls read; nil until one is bound
	packed       int64         // bytes that weights takes beside the file
	stage, next  stage         // of weights, in the step under way and after it
	release      func([]byte)  // of the file's bytes; nil: they are not released
	matmulsOnly  bool          // nothing reads Data once it is packed
}

// stage is how far the packing of a matrix in a block format is, see lazy_pack.go.
type stage uint8

const (
	unpacked stage = iota // no step has used it
	streamed              // a step has, through a buffer
	due                   // the next step that uses it packs it
	packed                // its packed weights hold it; floats, which are not packed, are there from the start
)

// rowRange is rows [from, to) of a matrix.
type rowRange struct{ from, to int }

// Bytes implements backend.Weight.
func (m *matrix) Bytes() int64 { return m.packed }

// WhenCopied implements backend.DeferredUpload.
func (m *matrix) WhenCopied(release func([]byte)) { m.release = release }

// stack is the matrices, or vectors, of a stacked weight.
type stack []backend.Weight

// Bytes implements backend.Weight.
func (s stack) Bytes() (n int64) {
	for _, w := range s {
		n += w.Bytes()
	}
	return n
}

// WhenCopied implements backend.DeferredUpload. Vectors have been copied.
func (s stack) WhenCopied(release func([]byte)) {
	for _, w := range s {
		if m, ok := w.(*matrix); ok {
			m.WhenCopied(release)
		}
	}
}

// packedSize is the size of a tensor packed, in whole cache lines.
func packedSize(t quant.Tensor) int64 { return (gemm.PackedBytes(t.Format, t.Rows, t.Cols) + 63) &^ 63 }

// preparePacked prepares the matrix for matmuls: floats as they are in the file, block formats with memory to be packed in.
func (d *Device) preparePacked(m *matrix) error {
	if m.weights != nil { // two matmuls share it; they must not both pack it
		d.pack([]*matrix{m})
		return nil
	}
	data, n := m.Data, gemm.PackedBytes(m.Format, m.Rows, m.Cols)
	m.stage, m.next = packed, packed
	if n > 0 {
		room, err := d.allocPacked(packedSize(m.Tensor))
		if err != nil {
			return fmt.Errorf("cpu: a weight of %d × %d: %w", m.Rows, m.Cols, err)
		}
		m.packed, data = n, room[:n]
		d.packBudget += n / packSteps
		m.stage, m.next = unpacked, unpacked
		mapAhead(m.Data)
		d.unpacked = append(d.unpacked, m)
	}
	w, err := gemm.Packed(m.Format, m.Rows, m.Cols, data)
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	m.weights = &w
	return nil
}

// allocPacked allocates memory for packed weights. All that are reserved share one allocation: each by itself would begin and
// end in small pages, and page faults took a tenth of the time to the first token.
func (d *Device) allocPacked(n int64) ([]byte, error) {
	if n > int64(len(d.freeRoom)) {
		m, err := newMemory(max(n, d.reserved), 0)
		if err != nil {
			return nil, err
		}
		d.packedMemory, d.freeRoom = append(d.packedMemory, m), m.bytes
	}
	taken := d.freeRoom[:n:n]
	d.freeRoom = d.freeRoom[n:]
	d.reserved -= n
	return taken, nil
}

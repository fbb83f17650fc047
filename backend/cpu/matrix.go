package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// matrix is a weight of more than one row.
type matrix struct {
	quant.Tensor               // where it lies in the file: what lookups read
	weights      *gemm.Weights // what products read; nil until one is bound
	packed       int64         // bytes that weights takes beside the file
	stage, next  stage         // of weights, in the step under way and after it
	release      func([]byte)  // of the file's bytes; nil: nobody wants to know
}

// stage is how far a matrix in a block format has come into the kernels' layout, see firstuse.go.
type stage uint8

const (
	unpacked stage = iota // no step has used it
	streamed              // a step has, and took it through a buffer
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

// packedSize is what a tensor takes packed, in whole cache lines.
func packedSize(t quant.Tensor) int64 { return (gemm.PackedBytes(t.Format, t.Rows, t.Cols) + 63) &^ 63 }

// ready prepares the matrix for products: floats as they lie, block formats with room to be packed in.
func (d *Device) preparePacked(m *matrix) error {
	if m.weights != nil { // two products share it; they must not both pack it
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

// take gives out room for packed weights. All that are wanted share one piece of memory: each by itself would begin and
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

package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// slots is a weight that adapters fill.
type slots []*adapter

// Bytes implements backend.Weight.
func (slots) Bytes() int64 { return 0 }

// adapter is what is in a slot. The product's matrices lie so that both are read by rows of many numbers: a [rank][in], the columns of
// the second as rows, b [rank][out]. Of a table of embeddings a is [vocab][rank].
type adapter struct {
	graph.LowRank
	a, b floatRows
}

// floatRows are rows of floats: F32 where they lie or were made, others in the format of their file.
type floatRows struct {
	quant.Tensor
	f32 []float32 // nil: they are decoded as they are read
}

// row is row i, decoded into buffer where it does not lie as F32.
func (m *floatRows) row(i int, buffer []float32) []float32 {
	if m.f32 != nil {
		return m.f32[i*m.Cols : (i+1)*m.Cols]
	}
	quant.Decode(m.Format, buffer[:m.Cols], m.Row(i))
	return buffer[:m.Cols]
}

// newFloatRows is a tensor's rows; those in F32 are used where they lie, if they lie at a multiple of their size.
func newFloatRows(t quant.Tensor) floatRows {
	m := floatRows{Tensor: t}
	if at := unsafe.SliceData(t.Data); t.Format == quant.F32 && len(t.Data) > 0 && uintptr(unsafe.Pointer(at))%4 == 0 {
		m.f32 = unsafe.Slice((*float32)(unsafe.Pointer(at)), len(t.Data)/4)
	}
	return m
}

// SetAdapter implements backend.AdapterLoader: the matrices stay in host memory, and B is transposed.
func (d *Device) SetAdapter(w backend.Weight, slot int, l *graph.LowRank) error {
	s, ok := w.(slots)
	if !ok || slot < 0 || slot >= len(s) {
		return fmt.Errorf("cpu: there is no slot %d for an adapter", slot)
	}
	if l == nil {
		s[slot] = nil
		return nil
	}
	a := &adapter{LowRank: *l}
	if l.Rank() > 0 {
		b, err := l.B.Transposed()
		if err != nil {
			return fmt.Errorf("cpu: an adapter's second matrix: %w", err)
		}
		a.a, a.b = newFloatRows(l.A), newFloatRows(b)
	}
	s[slot] = a
	return nil
}

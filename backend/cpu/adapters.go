package cpu

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
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
	a, b   floatRows
	panels []uint16 // in place of b, in BF16: see vec.Ops.AddPanels
}

// floatRows are rows of floats: F32 where they lie or were made, others in the format of their file.
type floatRows struct {
	quant.Tensor
	vec vec.Ops
	f32 []float32
	u16 []uint16 // of F16 or BF16, widened as they are read; nil, as is f32: they lie at an odd place
}

// row is row i, decoded into buffer where it does not lie as F32.
func (m *floatRows) row(i int, buffer []float32) []float32 { return m.columns(i, 0, m.Cols, buffer) }

// bf16 is row i where it lies in BF16; nil: it does not.
func (m *floatRows) bf16(i int) []uint16 {
	if m.u16 == nil || m.Format != quant.BF16 {
		return nil
	}
	return m.u16[i*m.Cols : (i+1)*m.Cols]
}

// columns is numbers [from, to) of row i.
func (m *floatRows) columns(i, from, to int, buffer []float32) []float32 {
	first, last := i*m.Cols+from, i*m.Cols+to
	if m.f32 != nil {
		return m.f32[first:last]
	}
	buffer = buffer[:to-from]
	switch {
	case m.u16 != nil && m.Format == quant.BF16:
		m.vec.WidenBF16(buffer, m.u16[first:last])
	case m.u16 != nil && m.Format == quant.F16:
		m.vec.WidenF16(buffer, m.u16[first:last])
	default:
		size := len(m.Data) / (m.Rows * m.Cols)
		quant.Decode(m.Format, buffer, m.Data[first*size:last*size])
	}
	return buffer
}

// newFloatRows is a tensor's rows; they are used where they lie, if that is at a multiple of their numbers' size.
func newFloatRows(v vec.Ops, t quant.Tensor) floatRows {
	m := floatRows{Tensor: t, vec: v}
	at := unsafe.Pointer(unsafe.SliceData(t.Data))
	switch {
	case len(t.Data) == 0:
	case t.Format == quant.F32 && uintptr(at)%4 == 0:
		m.f32 = unsafe.Slice((*float32)(at), len(t.Data)/4)
	case (t.Format == quant.BF16 || t.Format == quant.F16) && uintptr(at)%2 == 0:
		m.u16 = unsafe.Slice((*uint16)(at), len(t.Data)/2)
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
	a, ok := l.Packed.(*adapter)
	if !ok {
		var err error
		if a, err = d.packAdapter(l); err != nil {
			return err
		}
	}
	s[slot] = a
	return nil
}

// AdaptersSet implements backend.AdapterLoader.
func (d *Device) AdaptersSet(done func(error)) { done(nil) }

// PackAdapter implements backend.AdapterPacker.
func (d *Device) PackAdapter(_ backend.Weight, l *graph.LowRank) error {
	a, err := d.packAdapter(l)
	if err != nil {
		return err
	}
	a.B.Data, l.B.Data, l.Packed = nil, nil, a // it is there once, as it is read
	return nil
}

// packAdapter lays an adapter's matrices out.
func (d *Device) packAdapter(l *graph.LowRank) (*adapter, error) {
	a := &adapter{LowRank: *l, a: newFloatRows(d.vec, l.A)}
	switch {
	case l.Rank() == 0:
	case l.B.Format == quant.BF16 && l.B.Rows/max(l.Stack, 1)%vec.PanelColumns == 0 && l.A.Cols != l.Rank():
		a.panels = panelsOf(l.B)
	case l.Stack > 0:
		b := quant.Tensor{Format: l.B.Format, Rows: l.Stack * l.Rank(), Cols: l.B.Rows / l.Stack}
		for e := range l.Stack {
			_, of := l.Matrix(e)
			turned, err := of.Transposed()
			if err != nil {
				return nil, fmt.Errorf("cpu: an adapter's second matrix: %w", err)
			}
			b.Data = append(b.Data, turned.Data...)
		}
		a.b = newFloatRows(d.vec, b)
	default:
		b, err := l.B.Transposed()
		if err != nil {
			return nil, fmt.Errorf("cpu: an adapter's second matrix: %w", err)
		}
		a.b = newFloatRows(d.vec, b)
	}
	return a, nil
}

// panelsOf is a matrix in BF16, [out, rank], in panels of its rows: [out/16][rank][16].
func panelsOf(t quant.Tensor) []uint16 {
	panels := make([]uint16, t.Rows*t.Cols)
	for first := 0; first < t.Rows; first += vec.PanelColumns {
		panel := panels[first*t.Cols : (first+vec.PanelColumns)*t.Cols]
		for i := range vec.PanelColumns {
			row, r := t.Data[2*(first+i)*t.Cols:2*(first+i+1)*t.Cols], i
			for ; len(row) >= 8; row, r = row[8:], r+4*vec.PanelColumns { // four numbers at a time
				to, x := panel[r:r+3*vec.PanelColumns+1], binary.LittleEndian.Uint64(row)
				to[0], to[vec.PanelColumns], to[2*vec.PanelColumns], to[3*vec.PanelColumns] = uint16(x), uint16(x>>16), uint16(x>>32), uint16(x>>48)
			}
			for ; len(row) > 0; row, r = row[2:], r+vec.PanelColumns {
				panel[r] = binary.LittleEndian.Uint16(row)
			}
		}
	}
	return panels
}

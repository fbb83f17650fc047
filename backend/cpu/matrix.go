package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// matrix is a weight of more than one row.
type matrix struct {
	quant.Tensor               // where it lies in the file: what lookups read
	weights      *gemm.Weights // what products read; nil until one is bound
	packed       int64         // bytes that weights takes beside the file
}

// Bytes implements backend.Weight.
func (m *matrix) Bytes() int64 { return m.packed }

// ready prepares the matrix for products: floats as they lie, block formats interleaved once, by all workers.
func (d *Device) ready(m *matrix) error {
	if m.weights != nil {
		return nil
	}
	data := m.Data
	if n := gemm.PackedBytes(m.Format, m.Rows, m.Cols); n > 0 {
		packed, err := newMemory(n, 0)
		if err != nil {
			return fmt.Errorf("cpu: a weight of %d × %d: %w", m.Rows, m.Cols, err)
		}
		d.owned = append(d.owned, packed)
		m.packed, data = n, packed.bytes
		d.pool.run(func(w *worker) {
			if from, to := w.share(m.Rows, gemm.Granule); from < to {
				mapAhead(m.RowSpan(from, to).Data)
				gemm.Pack(d.tier, data, m.Tensor, from, to)
			}
		})
	}
	w, err := gemm.Packed(m.Format, m.Rows, m.Cols, data)
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	m.weights = &w
	return nil
}

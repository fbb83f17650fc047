package gemm

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// NR is the rows of weights (output features) in a packed panel, and so the step in which Mul's row ranges may be cut.
const NR = 32

// Weights is a matrix of Rows output features × Cols inputs, ready to be multiplied. Float formats are used as they
// are stored in the file, row-major; quantised ones are packed in panels of NR rows. The data is borrowed.
type Weights struct {
	Format     quant.Format
	Rows, Cols int
	data       []byte
	pack       *packing // nil for floats
}

// PackedBytes is the size of the packed weights of a rows × cols matrix: that of the tensor itself if rows is a
// multiple of NR, and of one padded with rows of zeros otherwise; of formats in pack_codes.go more. Float formats are not packed, and take 0.
func PackedBytes(f quant.Format, rows, cols int) int64 {
	p, packed := packings[f]
	if !packed {
		return 0
	}
	return int64(p.panelBytes(f, cols)) * int64(panels(rows))
}

// panelBytes is the size of a packed panel of rows of cols numbers.
func (p *packing) panelBytes(f quant.Format, cols int) int {
	return cols / f.Block() * (p.size + f.Block()/32*p.layout.blockBytes())
}

// panels is how many packed panels rows make.
func panels(rows int) int { return (rows + NR - 1) / NR }

// Packed is a view of packed data, which Pack fills, as weights. For float formats data is the tensor's own.
func Packed(f quant.Format, rows, cols int, data []byte) (Weights, error) {
	if !f.Valid() || rows <= 0 || cols <= 0 || cols%f.Block() != 0 {
		return Weights{}, fmt.Errorf("gemm: a %d × %d matrix cannot be in format %v", rows, cols, f)
	}
	want := PackedBytes(f, rows, cols)
	if want == 0 {
		want = f.RowBytes(cols) * int64(rows)
	}
	if int64(len(data)) != want {
		return Weights{}, fmt.Errorf("gemm: a %d × %d matrix in %v takes %d bytes packed, and %d were given", rows, cols, f, want, len(data))
	}
	w := Weights{Format: f, Rows: rows, Cols: cols, data: data}
	if p, packed := packings[f]; packed {
		w.pack = &p
	}
	return w, nil
}

// Part is rows [from, to) of packed weights as weights of their own, stored in data. from is a multiple of NR.
func (w *Weights) Part(from, to int, data []byte) Weights {
	part := *w
	part.Rows, part.data = to-from, data
	return part
}

// Bytes is where rows [from, to) lie. from is a multiple of NR.
func (w *Weights) Bytes(from, to int) []byte {
	size := w.panelBytes()
	return w.data[from/NR*size : panels(to)*size]
}

// panelBytes is the size of a packed panel, or of as many rows of floats, in bytes.
func (w *Weights) panelBytes() int {
	if w.pack == nil {
		return NR * int(w.Format.RowBytes(w.Cols))
	}
	return w.pack.panelBytes(w.Format, w.Cols)
}

// panel is the packed bytes of rows [NR·i, NR·i + NR): all their scales, then all their codes.
func (w *Weights) panel(i int, p *packing) (scales, codes []byte) {
	size := w.panelBytes()
	bytes := w.data[i*size : (i+1)*size]
	split := w.Cols / w.Format.Block() * p.size
	return bytes[:split], bytes[split:]
}

package quant

import (
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Tensor is a matrix of rows × cols numbers in one format, row-major, each row a whole number of blocks. Data is
// borrowed: it is usually a window into an mmapped file and must not be written.
type Tensor struct {
	Format     Format
	Rows, Cols int
	Data       []byte
}

// NewTensor checks that data holds exactly rows × cols numbers of format f.
func NewTensor(f Format, rows, cols int, data []byte) (Tensor, error) {
	switch {
	case !f.Valid():
		return Tensor{}, fmt.Errorf("quant: unknown number format %d", uint8(f))
	case rows <= 0 || cols <= 0:
		return Tensor{}, fmt.Errorf("quant: a tensor cannot be %d × %d", rows, cols)
	case cols%f.Block() != 0:
		return Tensor{}, fmt.Errorf("quant: rows of %d numbers do not divide into %s blocks of %d", cols, f, f.Block())
	case int64(len(data))/f.RowBytes(cols) != int64(rows) || int64(len(data))%f.RowBytes(cols) != 0:
		return Tensor{}, fmt.Errorf("quant: %d × %d numbers in %s take %d bytes a row, and %d bytes were given", rows, cols, f, f.RowBytes(cols), len(data))
	}
	return Tensor{Format: f, Rows: rows, Cols: cols, Data: data}, nil
}

// RowSpan is the sub-matrix of rows [from, to); it shares Data.
func (t Tensor) RowSpan(from, to int) Tensor {
	stride := t.Format.RowBytes(t.Cols)
	return Tensor{Format: t.Format, Rows: to - from, Cols: t.Cols, Data: t.Data[int64(from)*stride : int64(to)*stride]}
}

// Row is the bytes of row i.
func (t Tensor) Row(i int) []byte {
	stride := t.Format.RowBytes(t.Cols)
	return t.Data[int64(i)*stride : int64(i+1)*stride]
}

// FromFloats is a matrix in F32 of rows × cols numbers, row-major.
func FromFloats(x []float32, rows, cols int) Tensor {
	t := Tensor{Format: F32, Rows: rows, Cols: cols, Data: make([]byte, 0, 4*len(x))}
	for _, v := range x {
		t.Data = order.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// Floats decodes all of t's numbers, row by row.
func (t Tensor) Floats() []float32 {
	x := make([]float32, t.Rows*t.Cols)
	for r := range t.Rows {
		Decode(t.Format, x[r*t.Cols:(r+1)*t.Cols], t.Row(r))
	}
	return x
}

// Transposed is a copy of t with rows and columns exchanged; t must be in plain floats, whose numbers are by themselves.
func (t Tensor) Transposed() (Tensor, error) {
	if t.Format.Block() != 1 {
		return Tensor{}, fmt.Errorf("quant: a matrix in blocks of %s cannot be transposed", t.Format)
	}
	to, size := Tensor{Format: t.Format, Rows: t.Cols, Cols: t.Rows, Data: make([]byte, len(t.Data))}, t.Format.BlockBytes()
	for r := range t.Rows {
		row := t.Row(r)
		for c := range t.Cols {
			copy(to.Data[(c*t.Rows+r)*size:][:size], row[c*size:])
		}
	}
	return to, nil
}

// As is t's numbers in another format, rounded by all cores; its Data is new. An error names the first number of a row that f cannot
// hold.
func (t Tensor) As(f Format) (Tensor, error) {
	if f.Valid() && t.Cols%f.Block() != 0 {
		return Tensor{}, fmt.Errorf("quant: rows of %d numbers do not divide into %s blocks of %d", t.Cols, f, f.Block())
	}
	as := Tensor{Format: f, Rows: t.Rows, Cols: t.Cols, Data: make([]byte, int64(t.Rows)*f.RowBytes(t.Cols))}
	var parts errgroup.Group
	n := min(runtime.GOMAXPROCS(0), t.Rows)
	for i := range n {
		parts.Go(func() error {
			row := make([]float32, t.Cols)
			for r := t.Rows * i / n; r < t.Rows*(i+1)/n; r++ {
				Decode(t.Format, row, t.Row(r))
				if err := Encode(f, as.Row(r), row); err != nil {
					return fmt.Errorf("row %d: %w", r, err)
				}
			}
			return nil
		})
	}
	return as, parts.Wait()
}

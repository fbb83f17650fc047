package quant

import (
	"fmt"
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

package quant

import "fmt"

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

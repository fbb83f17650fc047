package recipe

import (
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/quant"
)

// Matrix is a recipe on a file, to be read by rows.
type Matrix struct {
	Shape
	from source
}

// Open checks a recipe against a file. It reads no numbers. An error names the tensor and the sizes at fault.
func Open(r Recipe, files Tensors) (*Matrix, error) {
	s, err := r.open(files)
	if err != nil {
		return nil, err
	}
	return &Matrix{s.shape(), s}, nil
}

// Read is rows [from, to): the window into the file where they lie, or made in buf, which has room for them. Several goroutines may call
// it at once, each with a buffer of its own.
func (m *Matrix) Read(buf []byte, from, to int) []byte {
	if w := m.from.window(from, to); w != nil {
		return w
	}
	buf = buf[:int64(to-from)*m.Format.RowBytes(m.Cols)]
	m.from.read(buf, from, to)
	return buf
}

// blockBytes is about how much is made at a time of what has to be made.
const blockBytes = 1 << 20

// Parts is the matrix in n parts of as many rows, such as the matrices of experts. A part that lies in the file is the window there; the
// others are new, made by all cores.
func (m *Matrix) Parts(n int) ([]quant.Tensor, error) {
	parts, rows, rowBytes := make([]quant.Tensor, n), m.Rows/n, m.Format.RowBytes(m.Cols)
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range parts {
		data := m.from.window(i*rows, (i+1)*rows)
		if data == nil {
			data = make([]byte, int64(rows)*rowBytes)
			each := int(max(1, blockBytes/rowBytes))
			for r := 0; r < rows; r += each {
				end := min(r+each, rows)
				work.Go(func() error {
					m.from.read(data[int64(r)*rowBytes:int64(end)*rowBytes], i*rows+r, i*rows+end)
					return nil
				})
			}
		}
		parts[i] = quant.Tensor{Format: m.Format, Rows: rows, Cols: m.Cols, Data: data}
	}
	return parts, work.Wait()
}

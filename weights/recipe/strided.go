package recipe

import (
	"encoding/binary"
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// strided is matrices of one shape, one below the other, whose numbers lie in a tensor at fixed distances: a tensor as it lies, and what
// columns and transposes make of one in a format without blocks. Where a format has blocks, a block lies where a number would.
type strided struct {
	name                   string // of the tensor
	data                   []byte
	format                 quant.Format
	count, rows, cols      int // matrices, rows of each; cols in numbers
	matrix, row, col, size int // bytes from one to the next, and of one
}

func (r Tensor) open(files Tensors) (source, error) {
	t, ok := files.Tensor(string(r))
	if !ok {
		return nil, fmt.Errorf("the file has no tensor %s", string(r))
	}
	if sparse := t.Format.Descriptor().Sparsity; sparse.Kept > 0 {
		if at := quant.CheckSparseBlocks(t.Data); at >= 0 {
			return nil, fmt.Errorf("tensor %s, in %s, does not store %d of the %d numbers from number %d of row %d on; the file is damaged, get it again",
				string(r), t.Format, sparse.Kept, sparse.Of, at%t.Cols, at/t.Cols)
		}
	}
	rowBytes := int(t.Format.RowBytes(t.Cols))
	size := t.Format.BlockBytes()
	return &strided{string(r), t.Data, t.Format, 1, t.Rows, t.Cols, t.Rows * rowBytes, rowBytes, size, size}, nil
}

// numbers is a recipe as numbers at fixed distances; what names what is to be done with them.
func numbers(r Recipe, files Tensors, what string) (*strided, error) {
	s, err := r.open(files)
	if err != nil {
		return nil, err
	}
	v, ok := s.(*strided)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s cannot be %s; a tensor and its columns can", r, what)
	case v.format.Block() != 1:
		return nil, fmt.Errorf("tensor %s is in %s, which cannot be %s; F32, F16 and BF16 can", v.name, v.format, what)
	}
	return v, nil
}

func (r Columns) open(files Tensors) (source, error) {
	s, err := numbers(r.Of, files, "taken apart by columns")
	if err != nil {
		return nil, err
	}
	if s.cols%r.Every != 0 || r.First >= r.Every {
		return nil, fmt.Errorf("tensor %s has rows of %d numbers, which are not to be taken by %d from number %d on", s.name, s.cols, r.Every, r.First)
	}
	part := *s
	part.data, part.cols, part.col = s.data[r.First*s.col:], s.cols/r.Every, s.col*r.Every
	return &part, nil
}

func (r Transpose) open(files Tensors) (source, error) {
	s, err := numbers(r.Of, files, "transposed")
	if err != nil {
		return nil, err
	}
	if s.count == r.Count && r.Count > 1 { // matrices already
		now := *s
		now.rows, now.cols, now.row, now.col = s.cols, s.rows, s.col, s.row
		return &now, nil
	}
	if s.count != 1 || r.Count < 1 || s.rows%r.Count != 0 {
		return nil, fmt.Errorf("tensor %s has %d rows, which are not %d matrices to be transposed", s.name, s.count*s.rows, r.Count)
	}
	now := *s
	now.count, now.rows, now.cols = r.Count, s.cols, s.rows/r.Count
	now.matrix, now.row, now.col = now.cols*s.row, s.col, s.row
	return &now, nil
}

func (s *strided) shape() Shape { return Shape{s.format, s.count * s.rows, s.cols} }

func (s *strided) window(from, to int) []byte {
	rowBytes := int(s.format.RowBytes(s.cols))
	if s.cols > 1 && s.col != s.size || s.rows > 1 && s.row != rowBytes || s.count > 1 && s.matrix != s.rows*rowBytes {
		return nil
	}
	return s.data[from*rowBytes : to*rowBytes : to*rowBytes]
}

// tile is how many rows are made side by side, so that what lies beside each other in the file is read together.
const tile = 64

func (s *strided) read(dst []byte, from, to int) {
	rowBytes := s.cols * s.size
	for r := from; r < to; {
		n := min(tile, to-r, s.rows-r%s.rows)
		src := s.data[r/s.rows*s.matrix+r%s.rows*s.row:]
		for c := range s.cols {
			at := src[c*s.col:]
			to := dst[(r-from)*rowBytes+c*s.size:]
			for i := range n {
				if s.size == 2 {
					binary.LittleEndian.PutUint16(to[i*rowBytes:], binary.LittleEndian.Uint16(at[i*s.row:]))
				} else {
					binary.LittleEndian.PutUint32(to[i*rowBytes:], binary.LittleEndian.Uint32(at[i*s.row:]))
				}
			}
		}
		r += n
	}
}

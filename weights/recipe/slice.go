package recipe

import "fmt"

// Slice is a part of matrices of one shape that lie one below the other, as a device of several has it: of Count matrices those
// [Matrix, Matrix+Matrices), and of each the rows [Row, Row+Rows) and columns [Col, Col+Cols). Rows beyond a matrix's are padding, zeros.
type Slice struct {
	Of                      Recipe
	Count, Matrix, Matrices int
	Row, Rows               int
	Col, Cols               int
}

func (r Slice) String() string {
	text := fmt.Sprintf("%s[%d:%d, %d:%d]", r.Of, r.Row, r.Row+r.Rows, r.Col, r.Col+r.Cols)
	if r.Count > 1 {
		text = fmt.Sprintf("%s[%d:%d, %d:%d, %d:%d]", r.Of, r.Matrix, r.Matrix+r.Matrices, r.Row, r.Row+r.Rows, r.Col, r.Col+r.Cols)
	}
	return text
}

// slice is a part of a source's matrices.
type slice struct {
	Slice
	of   source
	each int // rows of a whole matrix
}

func (r Slice) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s := of.shape()
	if r.Count < 1 || s.Rows%r.Count != 0 {
		return nil, fmt.Errorf("%s is %s, which are not %d matrices", r.Of, s, r.Count)
	}
	block := s.Format.Block()
	switch {
	case r.Matrix < 0 || r.Matrices < 0 || r.Matrix+r.Matrices > r.Count:
		return nil, fmt.Errorf("%s is %d matrices, and %d to %d are wanted", r.Of, r.Count, r.Matrix, r.Matrix+r.Matrices-1)
	case r.Row < 0 || r.Rows < 0 || r.Col < 0 || r.Cols < 0 || r.Col+r.Cols > s.Cols:
		return nil, fmt.Errorf("%s has %d columns, and %d to %d are wanted", r.Of, s.Cols, r.Col, r.Col+r.Cols-1)
	case r.Col%block != 0 || r.Cols%block != 0:
		return nil, fmt.Errorf("%s has columns in blocks of %d, and %d to %d are wanted", r.Of, block, r.Col, r.Col+r.Cols-1)
	}
	return &slice{r, of, s.Rows / r.Count}, nil
}

func (s *slice) shape() Shape { return Shape{s.of.shape().Format, s.Matrices * s.Rows, s.Cols} }

// place is where row r of the slice lies in the source, and how many rows behind it are there too and are no padding.
func (s *slice) place(r int) (at, more int) {
	matrix, row := r/s.Rows, s.Row+r%s.Rows
	return (s.Matrix+matrix)*s.each + row, min(s.each, s.Row+s.Rows) - row
}

func (s *slice) window(from, to int) []byte {
	if from >= to || s.Cols != s.of.shape().Cols {
		return nil
	}
	at, more := s.place(from)
	if to-from > more && !(s.Row == 0 && s.Rows == s.each) { // whole matrices lie together
		return nil
	}
	return s.of.window(at, at+to-from)
}

func (s *slice) read(dst []byte, from, to int) {
	whole := s.of.shape()
	size := int(whole.Format.RowBytes(s.Cols))
	block := whole.Format.BlockBytes()
	first, n := s.Col/whole.Format.Block()*block, s.Cols/whole.Format.Block()*block // size is more where a row has a scale behind its blocks
	row := make([]byte, whole.Format.RowBytes(whole.Cols))
	for r := from; r < to; r++ {
		if at, more := s.place(r); more > 0 {
			fill(s.of, row, at, at+1)
			copy(dst[:n], row[first:])
			copy(dst[n:size], row[len(row)-(size-n):])
		} else {
			clear(dst[:size])
		}
		dst = dst[size:]
	}
}

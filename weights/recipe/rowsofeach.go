package recipe

import (
	"fmt"
)

// RowsOfEach is rows [From, To) of each of Count matrices of one shape that lie one below the other: the keys' part of a matrix that holds
// keys and values of each head.
type RowsOfEach struct {
	Of       Recipe
	Count    int
	From, To int
}

func (r RowsOfEach) String() string {
	return fmt.Sprintf("%s[each of %d, %d:%d]", r.Of, r.Count, r.From, r.To)
}

// rowsOfEach is some rows of each of several matrices of a source, which have `each` rows.
type rowsOfEach struct {
	of             source
	each, from, to int
}

func (r RowsOfEach) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s := of.shape()
	if r.Count < 1 || s.Rows%r.Count != 0 || r.From < 0 || r.To <= r.From || r.To > s.Rows/r.Count {
		return nil, fmt.Errorf("%s is %s, and rows %d to %d of each of %d matrices are wanted", r.Of, s, r.From, r.To, r.Count)
	}
	if t, ok := of.(*strided); ok && t.count == 1 && t.format.Block() == 1 { // which may be transposed after
		part := *t
		part.count, part.rows = r.Count, r.To-r.From
		part.matrix, part.data = t.rows/r.Count*t.row, t.data[r.From*t.row:]
		return &part, nil
	}
	return rowsOfEach{of, s.Rows / r.Count, r.From, r.To}, nil
}

func (r rowsOfEach) shape() Shape {
	s := r.of.shape()
	return Shape{Format: s.Format, Rows: s.Rows / r.each * (r.to - r.from), Cols: s.Cols}
}

// span is where rows [from, to) are, as far as they are of one matrix.
func (r rowsOfEach) span(from, to int) (first, last int) {
	n := r.to - r.from
	first = from/n*r.each + r.from + from%n
	return first, first + min(to-from, n-from%n)
}

func (r rowsOfEach) window(from, to int) []byte {
	first, last := r.span(from, to)
	if last-first < to-from {
		return nil
	}
	return r.of.window(first, last)
}

func (r rowsOfEach) read(dst []byte, from, to int) {
	s := r.of.shape()
	for from < to {
		first, last := r.span(from, to)
		n := int64(last-first) * s.Format.RowBytes(s.Cols)
		fill(r.of, dst[:n], first, last)
		dst, from = dst[n:], from+last-first
	}
}

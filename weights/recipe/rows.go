package recipe

import "fmt"

// span is some rows of a source.
type span struct {
	of       source
	from, to int
}

func (r Rows) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s := of.shape()
	if v, ok := of.(*strided); ok && s.Rows == 1 {
		return v.numbers(r)
	}
	if p, ok := of.(permuted); ok && s.Rows == 1 && r.From >= 0 && r.From <= r.To && r.To <= s.Cols {
		return permuted{p.of, p.index[r.From:r.To]}, nil
	}
	if r.From < 0 || r.From > r.To || r.To > s.Rows {
		return nil, fmt.Errorf("%s has %d rows, and rows %d to %d are wanted", r.Of, s.Rows, r.From, r.To-1)
	}
	return &span{of, r.From, r.To}, nil
}

// numbers is some numbers of a vector.
func (s *strided) numbers(r Rows) (source, error) {
	if block := s.format.Block(); r.From < 0 || r.From > r.To || r.To > s.cols || r.From%block != 0 || r.To%block != 0 {
		return nil, fmt.Errorf("%s has %d numbers in blocks of %d, and numbers %d to %d are wanted", r.Of, s.cols, block, r.From, r.To-1)
	}
	part := *s
	part.data, part.cols = s.data[r.From/s.format.Block()*s.col:], r.To-r.From
	return &part, nil
}

func (s *span) shape() Shape {
	shape := s.of.shape()
	shape.Rows = s.to - s.from
	return shape
}

func (s *span) window(from, to int) []byte { return s.of.window(s.from+from, s.from+to) }

func (s *span) read(dst []byte, from, to int) { s.of.read(dst, s.from+from, s.from+to) }

// everyRow is every so many rows of a source.
type everyRow struct {
	EveryRow
	of source
}

func (r EveryRow) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	if s := of.shape(); s.Rows%r.Every != 0 || r.First >= r.Every {
		return nil, fmt.Errorf("%s has %d rows, which are not to be taken by %d from row %d on", r.Of, s.Rows, r.Every, r.First)
	}
	return &everyRow{r, of}, nil
}

func (s *everyRow) shape() Shape {
	shape := s.of.shape()
	shape.Rows /= s.Every
	return shape
}

func (*everyRow) window(int, int) []byte { return nil }

func (s *everyRow) read(dst []byte, from, to int) {
	shape := s.of.shape()
	rowBytes := int(shape.Format.RowBytes(shape.Cols))
	for r := from; r < to; r++ {
		at := s.First + r*s.Every
		fill(s.of, dst[:rowBytes], at, at+1)
		dst = dst[rowBytes:]
	}
}

package recipe

import "fmt"

// permutedColumns is groups of bytes of each row in another order.
type permutedColumns struct {
	of    source
	index []int
	bytes int // of a group
}

func (r PermuteColumns) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s := of.shape()
	if r.Each < 1 || r.Each%s.Format.Block() != 0 || len(r.Index)*r.Each != s.Cols {
		return nil, fmt.Errorf("%s is %s, and its columns are to be ordered in %d groups of %d", r.Of, s, len(r.Index), r.Each)
	}
	for _, i := range r.Index {
		if i < 0 || i >= len(r.Index) {
			return nil, fmt.Errorf("%s has %d groups of columns, and group %d is wanted", r.Of, len(r.Index), i)
		}
	}
	return permutedColumns{of, r.Index, int(s.Format.RowBytes(r.Each))}, nil
}

func (p permutedColumns) shape() Shape { return p.of.shape() }

func (permutedColumns) window(int, int) []byte { return nil }

func (p permutedColumns) read(dst []byte, from, to int) {
	row := make([]byte, len(p.index)*p.bytes)
	for r := from; r < to; r++ {
		fill(p.of, row, r, r+1)
		for i, at := range p.index {
			copy(dst[i*p.bytes:][:p.bytes], row[at*p.bytes:])
		}
		dst = dst[len(row):]
	}
}

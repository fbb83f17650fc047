package recipe

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// mapped is a function of each number of a source, row by row, in F32.
type mapped struct {
	of source
	f  func(row int) func(float32) float32
}

// always is the same function in all rows.
func always(f func(float32) float32) func(int) func(float32) float32 {
	return func(int) func(float32) float32 { return f }
}

func (r PlusOne) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	return mapped{of, always(func(v float32) float32 { return 1 + v })}, err
}

func (r NegExp) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	return mapped{of, always(func(v float32) float32 { return float32(-math.Exp(float64(v))) })}, err
}

func (p mapped) shape() Shape {
	s := p.of.shape()
	s.Format = quant.F32
	return s
}

func (mapped) window(int, int) []byte { return nil }

func (p mapped) read(dst []byte, from, to int) {
	s := p.of.shape()
	x, row := make([]float32, s.Cols), make([]byte, s.Format.RowBytes(s.Cols))
	for r := from; r < to; r++ {
		fill(p.of, row, r, r+1)
		quant.Decode(s.Format, x, row)
		f := p.f(r)
		for _, v := range x {
			binary.LittleEndian.PutUint32(dst, math.Float32bits(f(v)))
			dst = dst[4:]
		}
	}
}

// permuted is the rows of a source, or the numbers of a vector, in another order.
type permuted struct {
	of    source
	index []int
}

func (r Permute) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s := of.shape()
	n := s.Rows
	if n == 1 {
		n = s.Cols
		if s.Format.Block() != 1 {
			return nil, fmt.Errorf("%s is %s, whose numbers cannot be permuted; those in F32, F16 and BF16 can", r.Of, s)
		}
	}
	for _, i := range r.Index {
		if i < 0 || i >= n {
			return nil, fmt.Errorf("%s is %s, and row %d of it is wanted", r.Of, s, i)
		}
	}
	return permuted{of, r.Index}, nil
}

func (p permuted) shape() Shape {
	s := p.of.shape()
	if s.Rows == 1 {
		s.Cols = len(p.index)
	} else {
		s.Rows = len(p.index)
	}
	return s
}

func (permuted) window(int, int) []byte { return nil }

func (p permuted) read(dst []byte, from, to int) {
	s := p.of.shape()
	rowBytes := int(s.Format.RowBytes(s.Cols))
	if s.Rows == 1 {
		row, size := make([]byte, rowBytes), s.Format.BlockBytes()
		fill(p.of, row, 0, 1)
		for i, at := range p.index {
			copy(dst[i*size:][:size], row[at*size:])
		}
		return
	}
	for r := from; r < to; r++ {
		fill(p.of, dst[:rowBytes], p.index[r], p.index[r]+1)
		dst = dst[rowBytes:]
	}
}

package quantize

import (
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// Grid is how matrices are rounded: to codes of some bits, with a scale and a zero point for each group of a row's numbers:
// x ≈ scale·(code − zero).
type Grid struct {
	Bits      int
	Group     int  // numbers that share a scale; 0: a whole row
	Symmetric bool // zero is the middle code
}

// top is the largest code.
func (g Grid) top() int { return 1<<g.Bits - 1 }

// middle is the code that is zero in a symmetric grid.
func (g Grid) middle() int { return 1 << (g.Bits - 1) }

// group is the numbers of a group in rows of cols.
func (g Grid) group(cols int) int {
	if g.Group == 0 {
		return cols
	}
	return g.Group
}

// step is the scale and zero point of a group.
type step struct {
	scale float32 // exact in f16
	zero  uint8
}

// f16 is x rounded to f16, and not to zero.
func f16(x float32) float32 {
	r := quant.F16ToF32(quant.F32ToF16(min(x, 65504)))
	if r == 0 && x > 0 {
		return quant.F16ToF32(1)
	}
	return r
}

// fit is the step whose codes span the numbers of a group, times shrink.
func (g Grid) fit(x []float32, shrink float32) step {
	lo, hi := float32(0), float32(0)
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	return g.span(lo*shrink, hi*shrink)
}

// span is the step whose codes span lo to hi, which have zero between them.
func (g Grid) span(lo, hi float32) step {
	if g.Symmetric {
		s := f16(2 * max(-lo, hi) / float32(g.top()))
		if s == 0 {
			s = 1
		}
		return step{s, uint8(g.middle())}
	}
	s := f16((hi - lo) / float32(g.top()))
	if s == 0 {
		return step{1, 0}
	}
	z := math.RoundToEven(float64(-lo / s))
	return step{s, uint8(min(max(z, 0), float64(g.top())))}
}

// clips are the parts of a group's range that are tried.
var clips = []float32{1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5}

// search is the step, of those that span parts of a group's range, with the least squared error; weights, if not nil, says what one counts
// in each number.
func (g Grid) search(x, weights []float32) step {
	best, least := step{}, math.Inf(1)
	for _, c := range clips {
		s := g.fit(x, c)
		if loss := g.lossOf(s, x, weights); loss < least {
			best, least = s, loss
		}
	}
	return best
}

// lossOf is the squared error of a group.
func (g Grid) lossOf(s step, x, weights []float32) float64 {
	sum := 0.0
	for i, v := range x {
		d := float64(s.value(g.code(s, v)) - v)
		d *= d
		if weights != nil {
			d *= float64(weights[i])
		}
		sum += d
	}
	return sum
}

// code is the code nearest to x.
func (g Grid) code(s step, x float32) uint8 {
	q := math.RoundToEven(float64(x/s.scale)) + float64(s.zero)
	return uint8(min(max(q, 0), float64(g.top())))
}

// value is what a code stands for.
func (s step) value(code uint8) float32 { return s.scale * float32(int(code)-int(s.zero)) }

// Matrix is a matrix on a grid.
type Matrix struct {
	Grid
	Rows, Cols int
	codes      []uint8 // [Rows, Cols]
	steps      []step  // [Rows, groups]
	order      []int32 // the group of each column, where columns of a group do not lie together; nil: column / group
}

func newMatrix(g Grid, rows, cols int) *Matrix {
	return &Matrix{Grid: g, Rows: rows, Cols: cols, codes: make([]uint8, rows*cols), steps: make([]step, rows*(cols/g.group(cols)))}
}

// groups is how many a row has.
func (m *Matrix) groups() int { return m.Cols / m.group(m.Cols) }

// groupOf is the group of a column.
func (m *Matrix) groupOf(col int) int {
	if m.order != nil {
		return int(m.order[col])
	}
	return col / m.group(m.Cols)
}

// row writes the numbers of a row.
func (m *Matrix) row(dst []float32, r int) {
	steps, codes := m.steps[r*m.groups():], m.codes[r*m.Cols:]
	for c := range dst {
		dst[c] = steps[m.groupOf(c)].value(codes[c])
	}
}

// scales is the scales of all groups, in F32.
func (m *Matrix) scales() []byte {
	x := make([]float32, len(m.steps))
	for i, s := range m.steps {
		x[i] = s.scale
	}
	return quant.FromFloats(x, 1, len(x)).Data
}

// numbers is the matrix in floats.
func (m *Matrix) numbers() []float32 {
	x := make([]float32, m.Rows*m.Cols)
	for r := range m.Rows {
		m.row(x[r*m.Cols:(r+1)*m.Cols], r)
	}
	return x
}

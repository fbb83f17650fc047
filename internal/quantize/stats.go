package quantize

import (
	"math"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// stats is what is gathered of the inputs x of linear layers, [rows, cols].
type stats struct {
	cols    int
	rows    int
	hessian []float32 // Σ xᵀx, [cols, cols]: the squared error of a layer whose matrix is off by d is Σ d·hessian·dᵀ over its rows
	largest []float32 // of |x|, of each column
	sum     []float64 // of |x|, likewise
	sample  []float32 // some of the rows, for what rounding x does
	precise dense.Precision
}

// sampleRows is how many rows are kept, at most.
const sampleRows = 256

func newStats(cols int, p dense.Precision) *stats {
	return &stats{cols: cols, precise: p, hessian: make([]float32, cols*cols), largest: make([]float32, cols), sum: make([]float64, cols)}
}

// add adds rows of inputs; one of every so many is kept in the sample.
func (s *stats) add(e *dense.Engine, x []float32, every int) {
	n := len(x) / s.cols
	e.AddGram(s.hessian, x, n, s.cols, s.precise)
	for r := range n {
		row := x[r*s.cols : (r+1)*s.cols]
		for c, v := range row {
			a := float32(math.Abs(float64(v)))
			s.largest[c] = max(s.largest[c], a)
			s.sum[c] += float64(a)
		}
		if (s.rows+r)%every == 0 && len(s.sample) < sampleRows*s.cols {
			s.sample = append(s.sample, row...)
		}
	}
	s.rows += n
}

// diagonal is the mean square of each column.
func (s *stats) diagonal() []float32 {
	d := make([]float32, s.cols)
	for c := range d {
		d[c] = s.hessian[c*s.cols+c] / float32(max(s.rows, 1))
	}
	return d
}

// loss is Σ d·hessian·dᵀ over the rows of d, [rows, cols]: the squared error that a matrix off by d makes of the inputs.
func (s *stats) loss(e *dense.Engine, d []float32) float64 {
	n := len(d) / s.cols
	product := make([]float32, len(d))
	e.MulAll(product, s.cols, d, n, s.hessian, s.cols, s.cols) // the Hessian is its own transpose
	sum := 0.0
	for i, v := range product {
		sum += float64(v) * float64(d[i])
	}
	return max(sum, 0)
}

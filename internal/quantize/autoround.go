package quantize

import (
	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// autoRoundSteps is how many steps of sign gradients are made.
const autoRoundSteps = 200

// autoRound rounds by sign gradients (Cheng et al., arXiv:2309.05516): each number is rounded after an offset of up to half a step is added,
// and the offsets follow the sign of the gradient of the layer's squared error, whose Hessian is known exactly. Scales are those of the
// searched ranges. Of all steps the one with the least error counts, row by row.
func (o *Options) autoRound(e *dense.Engine, w []float32, rows, cols int, s *stats) (*Matrix, error) {
	g := o.Grid
	m := nearest(g, w, rows, cols, true, s.diagonal())
	group := g.group(cols)
	offset := make([]float32, rows*cols)
	d := make([]float32, rows*cols)
	product := make([]float32, rows*cols)
	least := make([]float64, rows)
	codes := make([]uint8, rows*cols)
	for n := range autoRoundSteps {
		rate := float32(1) / autoRoundSteps * (1 - float32(n)/autoRoundSteps) * 2
		dense.Each(rows, 1, func(from, to int) {
			for r := from; r < to; r++ {
				for c := range cols {
					i := r*cols + c
					st := m.steps[r*m.groups()+c/group]
					codes[i] = g.code(st, w[i]+offset[i]*st.scale)
					d[i] = st.value(codes[i]) - w[i]
				}
			}
		})
		e.MulAll(product, cols, d, rows, s.hessian, cols, cols)
		dense.Each(rows, 1, func(from, to int) {
			for r := from; r < to; r++ {
				loss := 0.0
				for i := r * cols; i < (r+1)*cols; i++ {
					loss += float64(product[i]) * float64(d[i])
				}
				if n == 0 || loss < least[r] {
					least[r] = loss
					copy(m.codes[r*cols:(r+1)*cols], codes[r*cols:])
				}
				for i := r * cols; i < (r+1)*cols; i++ {
					switch { // the gradient of an offset is the product, times a scale above zero
					case product[i] > 0:
						offset[i] = max(offset[i]-rate, -0.5)
					case product[i] < 0:
						offset[i] = min(offset[i]+rate, 0.5)
					}
				}
			}
		})
	}
	return m, nil
}

package quantize

import (
	"context"
	"math"
)

// awqSteps is how many exponents are tried.
const awqSteps = 20

// scaleInputs chooses scales for all inputs of a block whose makers take them, by what the model as it is makes of the text, and folds them in.
func (q *job) scaleInputs(ctx context.Context, b *block) error {
	var want []*input
	makers := map[*input]maker{}
	for i := range b.inputs {
		in := &b.inputs[i]
		if m, ok := q.makerOf(in); ok {
			makers[in] = m
			want = append(want, in)
		}
	}
	if len(want) == 0 {
		return nil
	}
	gathered, err := q.collect(ctx, b, want)
	if err != nil {
		return err
	}
	scales := map[*input][]float32{}
	for _, in := range want { // all before any is folded in: they are of the model as it is
		tensors, err := q.tensorsOf(in)
		if err != nil {
			return err
		}
		var ws [][]float32
		for _, t := range tensors {
			w, err := t.floats()
			if err != nil {
				return err
			}
			s := gathered[in]
			q.nearest[t.name] = q.errorOf(nearest(q.o.Grid, w, t.Rows, t.Cols, false, nil), w, s)
			ws = append(ws, w)
		}
		m := makers[in]
		if q.o.Method == SmoothQuant {
			scales[in] = q.smooth(&m, ws, gathered[in])
		} else {
			scales[in] = q.activationAware(&m, ws, gathered[in])
		}
	}
	for _, in := range want {
		if s := scales[in]; s != nil {
			if err := q.fold(in, makers[in], s); err != nil {
				return err
			}
		}
	}
	return nil
}

// activationAware is AWQ's scales of an input (Lin et al., arXiv:2306.00978): of its columns' mean magnitudes x and those of the matrices' numbers w,
// x^a / w^(1−a) or x^a, for the exponent a that makes the least error; nil: none is better than none.
func (q *job) activationAware(m *maker, ws [][]float32, s *stats) []float32 {
	cols := s.cols
	x, w := make([]float64, cols), columnMeans(ws, cols, q.o.Grid)
	for c := range x {
		x[c] = max(s.sum[c]/float64(max(s.rows, 1)), 1e-8)
	}
	var best []float32
	least := q.lossOfScales(ws, nil, s)
	for i := 1; i <= awqSteps; i++ {
		a := float64(i) / awqSteps
		for _, both := range []bool{false, true} {
			scale := make([]float32, cols)
			lo, hi := math.Inf(1), 0.0
			for c := range scale {
				v := math.Pow(x[c], a)
				if both {
					v /= math.Pow(w[c], 1-a)
				}
				v = max(v, 1e-4)
				lo, hi = min(lo, v), max(hi, v)
				scale[c] = float32(v)
			}
			for c := range scale {
				scale[c] /= float32(math.Sqrt(lo * hi))
			}
			m.share(scale)
			if loss := q.lossOfScales(ws, scale, s); loss < least {
				best, least = scale, loss
			}
		}
	}
	return best
}

// columnMeans is the mean magnitude of each column, of numbers by the largest of their group.
func columnMeans(ws [][]float32, cols int, g Grid) []float64 {
	mean, n := make([]float64, cols), 0
	group := g.group(cols)
	for _, w := range ws {
		for at := 0; at < len(w); at += group {
			largest := float32(1e-12)
			for _, v := range w[at : at+group] {
				largest = max(largest, v, -v)
			}
			for i, v := range w[at : at+group] {
				mean[(at+i)%cols] += math.Abs(float64(v / largest))
			}
		}
		n += len(w) / cols
	}
	for c := range mean {
		mean[c] = max(mean[c]/float64(max(n, 1)), 1e-4)
	}
	return mean
}

// awqRows is how many rows of each matrix errors of scales are measured on, at most.
const awqRows = 512

// lossOfScales is the squared error of matrices that are rounded with their columns scaled; nil: as they are.
func (q *job) lossOfScales(ws [][]float32, scale []float32, s *stats) float64 {
	sum := 0.0
	for _, w := range ws {
		rows := len(w) / s.cols
		every := (rows + awqRows - 1) / awqRows
		n := (rows + every - 1) / every
		part := make([]float32, n*s.cols)
		for r := range n {
			copy(part[r*s.cols:(r+1)*s.cols], w[r*every*s.cols:])
		}
		scaled := part
		if scale != nil {
			scaled = make([]float32, len(part))
			for i, v := range part {
				scaled[i] = v * scale[i%s.cols]
			}
		}
		d := nearest(q.o.Grid, scaled, n, s.cols, false, nil).numbers()
		for i, v := range part {
			if scale != nil {
				d[i] /= scale[i%s.cols]
			}
			d[i] -= v
		}
		sum += s.loss(q.engine, d)
	}
	return sum
}

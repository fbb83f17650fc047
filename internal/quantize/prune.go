package quantize

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// prune makes half of a tensor's numbers zero: those of least magnitude; those of least magnitude times that of their inputs (Wanda, Sun et al.,
// arXiv:2306.11695), row by row; or those whose loss costs least when the others make up for it (SparseGPT, Frantar and Alistarh,
// arXiv:2301.00774). With a grid the others are rounded to it: to nearest, with ranges searched, or of SparseGPT column by column as they make up
// for what is lost.
func (q *job) prune(b *block, t *layerTensor, w []float32, s *stats) (made, error) {
	if q.o.Of4 != 0 && t.Cols%4 != 0 {
		return made{}, fmt.Errorf("quantize: tensor %s has rows of %d numbers, which do not divide into fours", t.name, t.Cols)
	}
	plain := smallest(w, t.Rows, t.Cols, nil, q.o.Of4)
	x := plain
	var m *Matrix
	switch q.o.Method {
	case Wanda:
		weights := s.diagonal()
		for c, v := range weights {
			weights[c] = float32(math.Sqrt(float64(v)))
		}
		x = smallest(w, t.Rows, t.Cols, weights, q.o.Of4)
	case SparseGPT:
		var err error
		if x, m, err = q.o.sparseGPT(q.engine, w, t.Rows, t.Cols, s); err != nil {
			return made{}, fmt.Errorf("quantize: tensor %s: %w", t.name, err)
		}
	}
	e := LayerError{Tensor: t.name, Before: q.errorsOf(w, s, slices.Clone(plain))[0]}
	if !q.o.usesGrid() {
		e.After = q.errorsOf(w, s, slices.Clone(x))[0]
		q.report(b, e)
		return made{nil, x, t.Rows, t.Cols}, nil
	}
	if m == nil {
		m = nearest(q.o.Grid, x, t.Rows, t.Cols, true, s.diagonal())
	}
	e.After = q.errorOf(m, w, s)
	q.report(b, e)
	return made{m, m.numbers(), t.Rows, t.Cols}, nil
}

// smallest is w without half of its numbers: of each row's four, or of each row those of least magnitude times weights; without weights and
// fours, of all.
func smallest(w []float32, rows, cols int, weights []float32, of4 int) []float32 {
	x := slices.Clone(w)
	run := cols
	switch {
	case of4 != 0:
		run = 4
	case weights == nil:
		run = rows * cols
	}
	dense.Each(rows*cols/run, 1, func(from, to int) {
		at := make([]int, run)
		scores := make([]float64, run)
		for g := from; g < to; g++ {
			part := x[g*run : (g+1)*run]
			for i, v := range part {
				at[i], scores[i] = i, math.Abs(float64(v))
				if weights != nil {
					scores[i] *= float64(weights[(g*run+i)%cols])
				}
			}
			dropLeast(at, scores, func(i int) { part[i] = 0 })
		}
	})
	return x
}

// dropLeast calls drop for the half of at with the least scores.
func dropLeast(at []int, scores []float64, drop func(i int)) {
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	for _, i := range at[:len(at)/2] {
		drop(i)
	}
}

// sparseGPT makes half of the numbers zero, column by column as GPTQ rounds them: which ones is chosen for each block of columns, or four, by what is
// left of them then. With a grid the others are rounded as their columns' turn comes, and the matrix on it is returned.
func (o *Options) sparseGPT(e *dense.Engine, w []float32, rows, cols int, s *stats) ([]float32, *Matrix, error) {
	grid := o.Grid
	if !o.usesGrid() {
		grid = Grid{Bits: 8, Symmetric: true} // which nothing is rounded to
	}
	j, err := GPTQ{Order: InPlace, Clip: true}.prepare(e, grid, w, rows, cols, s)
	if err != nil {
		return nil, nil, err
	}
	dense.Each(rows, 1, func(from, to int) {
		j.rowsOf(from, to, func(r, k, size int, errs []float32) { j.pruneBlock(r, k, size, errs, o.Of4, o.usesGrid()) })
	})
	if !o.usesGrid() {
		return j.w, nil, nil
	}
	return j.w, j.m, nil
}

// pruneBlock makes half of columns [k, k+size) of a row zero, and rounds the others or leaves them; errs are the errors, each by the diagonal of u.
func (j *gptqJob) pruneBlock(r, k, size int, errs []float32, of4 int, round bool) {
	cols, group := j.cols, j.grid.group(j.cols)
	w := j.w[r*cols : (r+1)*cols]
	steps := j.m.steps[r*j.m.groups():]
	run := size
	if of4 != 0 {
		run = 4
	}
	zero := make([]bool, size)
	at, scores := make([]int, run), make([]float64, run)
	for i := range size {
		c := k + i
		if round && c%group == 0 {
			end := min(c+group, cols)
			steps[c/group] = j.stepFor(j.pending(w, errs[:i], k, c, end), j.weights[c:end])
		}
		if i%run == 0 {
			for n := range run {
				d := float64(j.u[(c+n)*cols+c+n])
				at[n], scores[n] = n, float64(w[c+n])*float64(w[c+n])/(d*d)
			}
			dropLeast(at, scores, func(n int) { zero[i+n] = true })
		}
		now := w[c]
		if zero[i] {
			now = 0
		}
		if round {
			q := j.grid.code(steps[c/group], now) // of 0 it is the zero point, which is 0 again
			j.m.codes[r*cols+c], now = q, steps[c/group].value(q)
		}
		err := (w[c] - now) / j.u[c*cols+c]
		errs[i], w[c] = err, now
		row := j.u[c*cols+c+1:][:k+size-c-1]
		left := w[c+1:][:len(row)]
		for n, v := range row {
			left[n] -= err * v
		}
	}
}

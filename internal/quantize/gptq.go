package quantize

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// Order is in which order GPTQ rounds a matrix's columns.
type Order string

// The orders.
const (
	InPlace Order = "off"    // as they are
	Static  Order = "static" // by falling magnitude of their inputs; groups lie together, their scales are found beforehand
	Full    Order = "full"   // likewise, and groups are of columns that follow one another in this order: the checkpoint has g_idx
)

// GPTQ is the settings of GPTQ (Frantar et al., arXiv:2210.17323).
type GPTQ struct {
	Damping float64 // added to the Hessian's diagonal, as a part of its mean; 0: 0.01
	Order   Order
	Clip    bool // scales are searched for the least squared error, and do not span all numbers
}

// gptqBlock is how many columns are rounded before the others are updated.
const gptqBlock = 128

// gptqJob is a matrix being rounded. Rows are independent of each other.
type gptqJob struct {
	GPTQ
	grid       Grid
	rows, cols int
	w          []float32 // [rows, cols], columns in the order of rounding; what is left to round
	u          []float32 // [cols, cols], the upper factor of the inverse Hessian, in this order
	weights    []float32 // of squared errors in a column, in this order
	at         []int     // the column of the matrix that is rounded as number i
	m          *Matrix
	engine     *dense.Engine
}

// quantise rounds a matrix w [rows, cols], column by column, each time spreading the error of a column over those that are left so that the
// layer's error over its inputs grows least. Inputs that are always zero have no weight: their numbers are rounded to nearest.
func (o GPTQ) quantise(e *dense.Engine, g Grid, w []float32, rows, cols int, s *stats) (*Matrix, error) {
	j, err := o.prepare(e, g, w, rows, cols, s)
	if err != nil {
		return nil, err
	}
	if o.Order == Static {
		j.fixSteps(w)
	}
	dense.Each(rows, 1, func(from, to int) { j.rowsOf(from, to, j.roundBlock) })
	return j.m, nil
}

// prepare puts matrix and Hessian into the order of rounding and factors the latter.
func (o GPTQ) prepare(e *dense.Engine, g Grid, w []float32, rows, cols int, s *stats) (*gptqJob, error) {
	j := &gptqJob{GPTQ: o, grid: g, rows: rows, cols: cols, m: newMatrix(g, rows, cols), engine: e, at: make([]int, cols)}
	diagonal := s.diagonal()
	mean := 0.0
	for c, d := range diagonal {
		j.at[c] = c
		mean += float64(d) / float64(cols)
	}
	if o.Order == Static || o.Order == Full {
		slices.SortStableFunc(j.at, func(a, b int) int { return cmp.Compare(diagonal[b], diagonal[a]) })
	}
	h := make([]float32, cols*cols)
	per := 1 / float32(max(s.rows, 1))
	for i, a := range j.at {
		for k, b := range j.at {
			h[i*cols+k] = s.hessian[a*cols+b] * per
		}
		j.weights = append(j.weights, diagonal[a])
	}
	damping := o.Damping
	if damping == 0 {
		damping = 0.01
	}
	if mean == 0 {
		mean = 1
	}
	var err error
	for range 4 { // a Hessian of few rows may need more
		damped := slices.Clone(h)
		for i := range cols {
			damped[i*cols+i] += float32(damping * mean)
			if h[i*cols+i] == 0 {
				damped[i*cols+i] = float32(mean)
			}
		}
		if j.u, err = e.InverseFactor(damped, cols); err == nil {
			break
		}
		damping *= 10
	}
	if err != nil {
		return nil, fmt.Errorf("its inputs' Hessian cannot be factored: %w", err)
	}
	j.w = make([]float32, rows*cols)
	for r := range rows {
		for i, a := range j.at {
			j.w[r*cols+i] = w[r*cols+a]
		}
	}
	if o.Order == Full {
		j.m.order = make([]int32, cols)
		for i, a := range j.at {
			j.m.order[a] = int32(i / g.group(cols))
		}
	}
	return j, nil
}

// stepFor is the step of a group's numbers.
func (j *gptqJob) stepFor(x, weights []float32) step {
	if j.Clip {
		return j.grid.search(x, weights)
	}
	return j.grid.fit(x, 1)
}

// fixSteps finds the steps of all groups from the numbers of the matrix, before any is rounded.
func (j *gptqJob) fixSteps(w []float32) {
	group := j.grid.group(j.cols)
	weights := make([]float32, j.cols)
	for i, a := range j.at {
		weights[a] = j.weights[i]
	}
	dense.Each(j.rows, 1, func(from, to int) {
		for r := from; r < to; r++ {
			for k := 0; k < j.cols; k += group {
				j.m.steps[r*j.m.groups()+k/group] = j.stepFor(w[r*j.cols+k:][:group], weights[k:k+group])
			}
		}
	})
}

// rowsOf changes rows [from, to), a block of columns at a time: round changes columns [k, k+size) of a row and gives their errors.
func (j *gptqJob) rowsOf(from, to int, round func(r, k, size int, errs []float32)) {
	n, cols := to-from, j.cols
	errs := make([]float32, n*gptqBlock)
	update := make([]float32, n*cols)
	for k := 0; k < cols; k += gptqBlock {
		size := min(gptqBlock, cols-k)
		for r := range n {
			round(from+r, k, size, errs[r*size:(r+1)*size])
		}
		left := cols - k - size
		if left == 0 {
			return
		}
		b := make([]float32, left*size) // u[block, rest]ᵀ
		for i := range size {
			row := j.u[(k+i)*cols+k+size:][:left]
			for c, v := range row {
				b[c*size+i] = v
			}
		}
		j.engine.Mul(update, left, errs, n, b, left, size)
		for r := range n {
			row := j.w[(from+r)*cols+k+size:][:left]
			for c, v := range update[r*left : (r+1)*left] {
				row[c] -= v
			}
		}
	}
}

// roundBlock rounds columns [k, k+size) of a row; errs are the errors, each by the diagonal of u.
func (j *gptqJob) roundBlock(r, k, size int, errs []float32) {
	cols, group := j.cols, j.grid.group(j.cols)
	w := j.w[r*cols : (r+1)*cols]
	steps := j.m.steps[r*j.m.groups():]
	for i := range size {
		at := k + i
		to := j.at[at]
		if j.Order != Static && at%group == 0 {
			end := min(at+group, cols)
			steps[at/group] = j.stepFor(j.pending(w, errs[:i], k, at, end), j.weights[at:end])
		}
		s := steps[j.m.groupOf(to)]
		q := j.grid.code(s, w[at])
		j.m.codes[r*cols+to] = q
		err := (w[at] - s.value(q)) / j.u[at*cols+at]
		errs[i] = err
		row := j.u[at*cols+at+1:][:k+size-at-1]
		rest := w[at+1:][:len(row)]
		for c, v := range row {
			rest[c] -= err * v
		}
	}
}

// pending is columns [from, to) of a row with the errors of this block's columns so far, where they reach beyond the block.
func (j *gptqJob) pending(w, errs []float32, k, from, to int) []float32 {
	end := k + gptqBlock
	if to <= end || len(errs) == 0 {
		return w[from:to]
	}
	x := slices.Clone(w[from:to])
	for i, e := range errs {
		for c := end; c < to; c++ {
			x[c-from] -= e * j.u[(k+i)*j.cols+c]
		}
	}
	return x
}

package quantize

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
	"github.com/ridge-llm/ridge/quant"
)

// prune makes half of a tensor's numbers zero: those of least magnitude; those of least magnitude times that of their inputs (Wanda, Sun et al.,
// arXiv:2306.11695), row by row; or those whose loss costs least when the others make up for it (SparseGPT, Frantar and Alistarh,
// arXiv:2301.00774).
func (q *job) prune(b *block, t *layerTensor, w []float32, s *stats) error {
	if q.o.Of4 != 0 && t.Cols%4 != 0 {
		return fmt.Errorf("quantize: tensor %s has rows of %d numbers, which do not divide into fours", t.name, t.Cols)
	}
	plain := smallest(w, t.Rows, t.Cols, nil, q.o.Of4)
	x := plain
	switch q.o.Method {
	case Wanda:
		weights := s.diagonal()
		for c, v := range weights {
			weights[c] = float32(math.Sqrt(float64(v)))
		}
		x = smallest(w, t.Rows, t.Cols, weights, q.o.Of4)
	case SparseGPT:
		var err error
		if x, err = sparseGPT(q.engine, w, t.Rows, t.Cols, s, q.o.Of4); err != nil {
			return fmt.Errorf("quantize: tensor %s: %w", t.name, err)
		}
	}
	kept := quant.FromFloats(x, t.Rows, t.Cols)
	q.report(b, LayerError{Tensor: t.name, Before: q.errorOfNumbers(slices.Clone(plain), w, s), After: q.errorOfNumbers(x, w, s)})
	q.keepFolded(t.name, kept)
	return nil
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
// left of them then.
func sparseGPT(e *dense.Engine, w []float32, rows, cols int, s *stats, of4 int) ([]float32, error) {
	j, err := GPTQ{Order: InPlace}.prepare(e, Grid{Bits: 8, Symmetric: true}, w, rows, cols, s)
	if err != nil {
		return nil, err
	}
	dense.Each(rows, 1, func(from, to int) {
		j.rowsOf(from, to, func(r, k, size int, errs []float32) { j.pruneBlock(r, k, size, errs, of4) })
	})
	return j.w, nil
}

// pruneBlock makes half of columns [k, k+size) of a row zero; errs are the errors, each by the diagonal of u.
func (j *gptqJob) pruneBlock(r, k, size int, errs []float32, of4 int) {
	cols := j.cols
	w := j.w[r*cols : (r+1)*cols]
	run := size
	if of4 != 0 {
		run = 4
	}
	zero := make([]bool, size)
	at, scores := make([]int, run), make([]float64, run)
	for i := range size {
		if i%run == 0 {
			for n := range run {
				d := float64(j.u[(k+i+n)*cols+k+i+n])
				at[n], scores[n] = n, float64(w[k+i+n])*float64(w[k+i+n])/(d*d)
			}
			dropLeast(at, scores, func(n int) { zero[i+n] = true })
		}
		errs[i] = 0
		if !zero[i] {
			continue
		}
		c := k + i
		err := w[c] / j.u[c*cols+c]
		errs[i], w[c] = err, 0
		row := j.u[c*cols+c+1:][:k+size-c-1]
		left := w[c+1:][:len(row)]
		for n, v := range row {
			left[n] -= err * v
		}
	}
}

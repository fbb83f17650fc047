package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
)

// A normalisation between two products of 5 to 32 rows is done by both, in wide.h: the first adds the residual, multiplies what that makes by
// the normalisation's weights, and leaves the sums of its squares over pieces of each row; the second adds these up and multiplies its results
// by the scale that they give.

// summedRows is the most rows of a launch that does so, summedTiles the most pieces of a row.
const (
	summedRows  = 32
	summedTiles = 1024
)

// SquaresBytes is the room for the squares of all rows.
const SquaresBytes = 4 * summedRows * summedTiles

// Sums reports whether launches of m rows may be Summed.
func Sums(m int) bool { return m > digitRows && m <= summedRows }

// Summed is New for a product of rows that Sums whose Residual is added, with the normalisation behind it: weight is [N] float32, and what is to
// be multiplied by those behind goes to weighed, [Rows, N] bf16. Nil, without an error, if there is no kernel for it.
func Summed(l *kernels.Loader, f quant.Format, p Problem, weight, weighed driver.Ptr, s Scratch) (*Kernel, error) {
	if !l.Hopper() || !fits(p) || len(p.Parts) != 1 || tiles(p.Parts[0].N) > summedTiles {
		return nil, nil
	}
	w, err := newWide(l, layouts[f], p, s)
	if err != nil {
		return nil, err
	}
	w.base.Residual, w.base.Weight, w.base.Weighed = p.Residual, weight, weighed
	return &Kernel{wide: w}, nil
}

// LaunchBehind is Launch of rows that Sums where X is what another kernel weighed: its rows are still to be divided by the root of their mean
// square and eps.
func (k *Kernel) LaunchBehind(s *driver.Stream, m int, sum *Kernel, eps float32) error {
	d, err := sum.wide.deal(m)
	if err != nil {
		return err
	}
	p := k.wide.base
	p.Pieces, p.Eps = sum.wide.base.Tiles<<d.splits, eps
	return k.wide.launchOf(s, m, p)
}

// FitsBehind reports whether a problem of n × k may be launched behind.
func FitsBehind(l *kernels.Loader, n, k int) bool {
	return l.Hopper() && fits(Problem{K: k, Parts: []Part{{N: n}}})
}

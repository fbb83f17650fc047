package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
)

// RMSNorm between two GEMMs of 5 to 32 rows, of 2:4 sparse weights of 1 to 32, is fused into both, in gemm_sm90.h: the epilogue of the first adds the residual, also stores the sum
// multiplied by the norm's weights, and stores the sums of its squares over parts of each row; the prologue of the second adds these up, and its
// results are multiplied by the scale that they give.

// normRows is the most rows of a launch with a fused norm, normTiles the most parts of a row.
const (
	normRows  = 32
	normTiles = 1024
)

// SquaresBytes is the room for the squares of all rows.
const SquaresBytes = 4 * normRows * normTiles

// NormRows reports whether launches of m rows may have a fused norm; those of fewer rows have it in their GEMVs, but for sparse weights.
func NormRows(f quant.Format, m int) bool { return (m > int8Rows || Sparse(f)) && m <= normRows }

// SparseNormRows is the most rows of a launch with a fused norm of weights in a sparse format, for layers of n × k; 0 of others.
func SparseNormRows(l *kernels.Loader, f quant.Format, n, k int) int {
	if !Sparse(f) || !FitsNormPrologue(l, n, k) || tiles(n) > normTiles {
		return 0
	}
	return normRows
}

// NewNormEpilogue is New for NormRows rows whose Residual is added, with the norm behind them: weight is [N] float32, and Y times weight, the X of the
// next GEMM, goes to yWeighted, [Rows, N] bf16. Nil, without an error, if there is no kernel for it.
func NewNormEpilogue(l *kernels.Loader, f quant.Format, p Problem, weight, yWeighted driver.Ptr, s Scratch) (*Kernel, error) {
	if !l.Hopper() || !fits(p) || len(p.Parts) != 1 || tiles(p.Parts[0].N) > normTiles {
		return nil, nil
	}
	w, err := newGemmSM90(l, layouts[f], p, s)
	if err != nil {
		return nil, err
	}
	w.base.Residual, w.base.Weight, w.base.YWeighted = p.Residual, weight, yWeighted
	return &Kernel{gemm: w}, nil
}

// LaunchNormPrologue is Launch of NormRows rows where X is another kernel's yWeighted: its rows are still to be divided by the root of their mean
// square and eps.
func (k *Kernel) LaunchNormPrologue(s *driver.Stream, m int, sum *Kernel, eps float32) error {
	d, err := sum.gemm.schedule(m)
	if err != nil {
		return err
	}
	p := k.gemm.base
	p.SquareParts, p.Eps = sum.gemm.base.Tiles<<d.splits, eps
	return k.gemm.launchOf(s, m, p)
}

// FitsNormPrologue reports whether a problem of n × k may be launched so.
func FitsNormPrologue(l *kernels.Loader, n, k int) bool {
	return l.Hopper() && fits(Problem{K: k, Parts: []Part{{N: n}}})
}

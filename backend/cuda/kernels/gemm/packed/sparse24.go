package packed

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Sparse reports whether a format that Has is 2:4 sparse, which the tensor cores multiply as it is stored.
func Sparse(f quant.Format) bool { return layouts[f].sparse }

// NewSparse binds a problem whose weights are in a format that is Sparse to Hopper's kernels for many rows, where its sizes fit them; nil: they do not.
func NewSparse(l *kernels.Loader, p Problem, splitKSums driver.Ptr) (*densesm90.SparseKernel, error) {
	wide := densesm90.Problem{Type: graph.BF16, X: p.X, Rows: p.Rows, K: p.K, Gated: p.Gated, Fn: p.Fn}
	for _, w := range p.Parts {
		if !l.Hopper() || !densesm90.Fits(graph.BF16, w.N, p.K) {
			return nil, nil
		}
		wide.Weights = append(wide.Weights, densesm90.Weight{W: w.W, Bias: w.Bias, Y: w.Y, N: w.N})
	}
	if p.Gated {
		up := wide.Weights[1]
		wide.Weights[0].W2, wide.Weights[0].Bias2 = up.W, up.Bias
		wide.Weights = wide.Weights[:1]
	}
	return densesm90.NewSparse(l, wide, splitKSums)
}

package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// RouterNormParams mirrors RouterNormParams of router_norm.h: rows of N numbers in BF16 and what is added to them, their sums and what these normalise to, and the
// weights of a router in BF16, [Experts, N], with its bias in float32 or 0.
type RouterNormParams struct {
	X, Add, Sum, Y, Norm, W, Bias, Scores driver.Ptr
	N, Experts                            int32
	Eps                                   float32
	_                                     int32
}

// routerNormMaxRow is the longest row, and routerNormExperts the experts that a block scores, one a warp.
const (
	routerNormMaxRow  = 4096
	routerNormExperts = 8
)

// RouterNormFits reports whether rows of n numbers can be summed, normalised and scored in one launch.
func RouterNormFits(n int) bool { return n%8 == 0 && n <= routerNormMaxRow }

// RouterNorm is the residual add, the RMSNorm and the router's GEMV before a block, in one launch.
type RouterNorm struct {
	kernel *driver.Kernel
	p      RouterNormParams
}

// NewRouterNorm binds a problem to its kernel.
func NewRouterNorm(l *kernels.Loader, p RouterNormParams) (*RouterNorm, error) {
	k, err := l.Kernel("moe/moe", "router_norm", 0)
	return &RouterNorm{k, p}, err
}

// Launch computes so many rows.
func (k *RouterNorm) Launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(k.p.Experts) + routerNormExperts - 1) / routerNormExperts, Y: rows, Threads: 32 * routerNormExperts}, &k.p)
}

package densesm90

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// sparseParams mirrors SparseParams of sparse.cu.
type sparseParams struct {
	params
	W  [3]driver.Ptr
	Up driver.Ptr
	_  [32]byte // tensor maps lie at multiples of 64
}

// sparseWidths are tile widths with their stages of x, 64 columns, and of weights, 128.
var sparseWidths = []struct {
	shape
	weights int
}{{shape{128, 8, 1, 13}, 4}, {shape{256, 5, 1.8, 22}, 2}}

const (
	sparseColumns = 128          // of a step
	sparsePanel   = 8 * 2 * 1152 // bytes of 128 rows of a step's weights
)

// SparseKernel is a problem with 2:4 sparse weights bound to its kernels.
type SparseKernel struct {
	kernel *Kernel
	w      [3]driver.Ptr
	up     driver.Ptr
}

// NewSparse binds a problem in BF16 whose weights are 2:4 sparse: each W, and W2 of a gated problem, is what gemm/packed's Pack makes of it. There are no
// deltas. sums is as New has it.
func NewSparse(l *kernels.Loader, p Problem, sums driver.Ptr) (*SparseKernel, error) {
	steps := (p.K + 2*sparseColumns - 1) / (2 * sparseColumns) * 2 // as gemm/packed pads rows
	k := &Kernel{sms: l.SMs(), alone: !l.Context().MPS, base: deltaParams{params: params{
		K: int32(steps * depth), Parts: int32(len(p.Weights)), Fn: p.Fn, Sums: sums,
	}}}
	s := &SparseKernel{kernel: k, up: p.Weights[0].W2}
	name, each := "sparse_gemm", 1
	if p.Gated {
		name, each = "sparse_gated", 2
	}
	for i, w := range p.Weights {
		s.w[i] = w.W
		k.base.Part[i] = part{Bias: w.Bias, Bias2: w.Bias2, Y: w.Y, N: int32(w.N), Tiles: int32((each*w.N + tileRows - 1) / tileRows)}
		k.base.Tiles += k.base.Part[i].Tiles
	}
	cluster := 1
	if k.paired() {
		name, cluster = name+"_cluster", 2
	}
	for _, w := range sparseWidths {
		b := width{shape: w.shape, cluster: cluster}
		chunk := w.rows / 4 // tokens of a chunk of the epilogue
		b.shared = 1024 + w.stages*w.rows*depth*2 + w.weights*sparsePanel + 2*chunk*lineBytes
		var err error
		if b.kernel, err = l.Kernel("gemm/dense_sm90/sparse", fmt.Sprint(name, w.rows), b.shared); err != nil {
			return nil, err
		}
		if b.x, err = l.Context().MatrixMap(p.X, p.Rows, p.K, 2*p.K, w.rows/cluster, depth); err != nil {
			return nil, err
		}
		k.widths = append(k.widths, b)
		if w.rows >= p.Rows {
			break
		}
	}
	return s, nil
}

// Launch computes the first m rows.
func (k *SparseKernel) Launch(s *driver.Stream, m int) error {
	w, base, grid := k.kernel.prepare(m, nil)
	return driver.Launch(s, w.kernel, grid, &sparseParams{params: base.params, W: k.w, Up: k.up})
}

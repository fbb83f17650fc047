package moe

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// groupedGemmSM90Params mirrors GroupedGemmSm90Params of grouped_gemm_sm90.h.
type groupedGemmSM90Params struct {
	X                          [sm90JobSlots / sm90WidthStep]driver.TensorMap
	Total, Jobs                driver.Ptr
	W, Bias, UpBias, Y         driver.Ptr
	Stride                     int64
	N, K, Each                 int32
	Steep, Curved, Limit, More float32
	Squared                    int32
	_                          [5]uint64 // the struct's size is a multiple of its maps' alignment, 64
}

// groupedGemmSM90 is a product bound to the kernel of grouped_gemm_sm90.h.
type groupedGemmSM90 struct {
	base   groupedGemmSM90Params
	op     graph.MoE
	sms    int
	runs   int // pairs of tiles of weights, one for each cluster of two blocks
	kernel *driver.Kernel
}

const (
	sm90JobSlots      = 256 // slots of a job
	sm90SmallJobSlots = 160 // of a smaller job, which leaves more shared memory to stages of weights; divisible by sm90WidthStep
	sm90Shared        = 226 << 10
	sm90WidthStep     = 32 // slots by which the widths of wgmma differ
	sm90Threads       = 384
)

// HasSM90 reports whether products of this size have sm_90 kernels (wgmma and TMA) for large jobs, which need rows permuted by expert. Those of Relu are
// Squared.
func HasSM90(l *kernels.Loader, o graph.MoE, n, k int) bool {
	return l.Hopper() && k%8 == 0 && n%8 == 0 && (o.Clamp != 0 || o.Fn == graph.Silu || o.Fn == graph.GeluTanh || o.Fn == graph.Relu)
}

func newGroupedGemmSM90(l *kernels.Loader, p Product, o graph.MoE, s Slots) (*groupedGemmSM90, error) {
	w := &groupedGemmSM90{op: o, sms: l.SMs(), base: groupedGemmSM90Params{
		Total: s.Total, Jobs: s.Jobs, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(), N: int32(p.N), K: int32(p.K),
	}}
	w.base.setGate(o)
	if p.Squared {
		w.base.Squared = 1
	}
	name, tile, x := "down", panelRows, p.Permuted
	if p.BySlot {
		x = p.X
	}
	if p.Gated {
		name, tile = "gated", panelRows/2
	}
	w.runs = (p.N + 2*tile - 1) / (2 * tile)
	var err error
	if w.kernel, err = l.Kernel(modules[p.Format].name, fmt.Sprint(name, sm90JobSlots), sm90Shared); err != nil {
		return nil, err
	}
	for i := range w.base.X {
		if w.base.X[i], err = l.Context().MatrixMap(x, p.Slots, p.K, 2*p.K, (i+1)*sm90WidthStep/2, pieceCols); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// setGate sets the constants of Gate of grouped_gemm_sm90.h.
func (p *groupedGemmSM90Params) setGate(o graph.MoE) {
	const log2e = math.Log2E
	p.Steep, p.Limit = -log2e, float32(math.Inf(1))
	switch {
	case o.Clamp != 0:
		p.Steep, p.Limit, p.More = -log2e*graph.SwiGLUAlpha, float32(o.Clamp), 1
	case o.Fn == graph.GeluTanh: // (1 + tanh(u)) / 2 is sigmoid(2u)
		p.Steep, p.Curved = -log2e*2*0.7978845608028654, -log2e*2*0.7978845608028654*0.044715
	}
}

func (w *groupedGemmSM90) launch(s *driver.Stream, rows, each int) error {
	w.base.Each = int32(each)
	clusters := min(w.sms/2, w.runs*Jobs(w.op, rows, each))
	return driver.Launch(s, w.kernel, driver.Grid{X: 2 * clusters, Threads: sm90Threads, Shared: sm90Shared, Cluster: 2}, &w.base)
}

// permuteParams mirrors PermuteParams of moe.cu.
type permuteParams struct {
	X, Row, First, Y driver.Ptr
	N, Experts       int32
}

// Permuter copies the row of each slot, so that an expert's rows are contiguous.
type Permuter struct {
	kernel *driver.Kernel
	p      permuteParams
}

// NewPermuter binds rows x [rows, n] in BF16, n divisible by 8, and their copies y [slots, n].
func NewPermuter(l *kernels.Loader, x, y driver.Ptr, n int, o graph.MoE, s Slots) (*Permuter, error) {
	k, err := l.Kernel("moe/moe", "permute", 0)
	return &Permuter{k, permuteParams{X: x, Row: s.Row, First: s.First, Y: y, N: int32(n), Experts: int32(Held(o))}}, err
}

// Launch copies the rows of up to so many slots.
func (k *Permuter) Launch(s *driver.Stream, slots int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (slots + 7) / 8, Threads: 256}, &k.p)
}

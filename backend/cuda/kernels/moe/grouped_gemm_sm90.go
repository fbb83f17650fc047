package moe

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// wideParams mirrors WideExpertsParams of grouped_gemm_sm90.h.
type wideParams struct {
	X                          [wideEach / wideStep]driver.TensorMap
	Total, Jobs                driver.Ptr
	W, Bias, UpBias, Y         driver.Ptr
	Stride                     int64
	N, K, Each                 int32
	Steep, Curved, Limit, More float32
	_                          int32
	_                          [5]uint64 // the struct's size is a multiple of its maps' alignment, 64
}

// wide is a product bound to the kernel of grouped_gemm_sm90.h.
type wide struct {
	base   wideParams
	op     graph.MoE
	sms    int
	runs   int // tiles of weights, by twos
	kernel *driver.Kernel
}

const (
	wideEach    = 256 // slots of a job
	wideLess    = 160 // of one where more of the block's memory should go to weights on their way; divisible by wideStep
	wideShared  = 226 << 10
	wideStep    = 32 // slots by which products are wider
	wideThreads = 384
)

// Sorts reports whether products of this size have kernels for large jobs, which want rows sorted by experts.
func Sorts(l *kernels.Loader, o graph.MoE, n, k int) bool {
	return l.Hopper() && k%8 == 0 && n%8 == 0 && (o.Clamp != 0 || o.Fn == graph.Silu || o.Fn == graph.GeluTanh)
}

func newWide(l *kernels.Loader, p Product, o graph.MoE, s Slots) (*wide, error) {
	w := &wide{op: o, sms: l.SMs(), base: wideParams{
		Total: s.Total, Jobs: s.Jobs, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(), N: int32(p.N), K: int32(p.K),
	}}
	w.base.setGate(o)
	name, tile, x := "down", slabRows, p.Sorted
	if p.BySlot {
		x = p.X
	}
	if p.Gated {
		name, tile = "gated", slabRows/2
	}
	w.runs = (p.N + 2*tile - 1) / (2 * tile)
	var err error
	if w.kernel, err = l.Kernel(forms[p.Format], fmt.Sprint(name, wideEach), wideShared); err != nil {
		return nil, err
	}
	for i := range w.base.X {
		if w.base.X[i], err = l.Context().MatrixMap(x, p.Slots, p.K, 2*p.K, (i+1)*wideStep/2, pieceCols); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// setGate gives WideGate's numbers.
func (p *wideParams) setGate(o graph.MoE) {
	const log2e = math.Log2E
	p.Steep, p.Limit = -log2e, float32(math.Inf(1))
	switch {
	case o.Clamp != 0:
		p.Steep, p.Limit, p.More = -log2e*graph.SwiGLUAlpha, float32(o.Clamp), 1
	case o.Fn == graph.GeluTanh: // (1 + tanh(u)) / 2 is sigmoid(2u)
		p.Steep, p.Curved = -log2e*2*0.7978845608028654, -log2e*2*0.7978845608028654*0.044715
	}
}

func (w *wide) launch(s *driver.Stream, rows, each int) error {
	w.base.Each = int32(each)
	clusters := min(w.sms/2, w.runs*Jobs(w.op, rows, each))
	return driver.Launch(s, w.kernel, driver.Grid{X: 2 * clusters, Threads: wideThreads, Shared: wideShared, Cluster: 2}, &w.base)
}

// sortParams mirrors SortParams of moe.cu.
type sortParams struct {
	X, Row, First, Y driver.Ptr
	N, Experts       int32
}

// Sorter copies each slot its row.
type Sorter struct {
	kernel *driver.Kernel
	p      sortParams
}

// NewSorter binds rows x [rows, n] bf16, n divisible by 8, and where those of the slots go [slots, n].
func NewSorter(l *kernels.Loader, x, y driver.Ptr, n int, o graph.MoE, s Slots) (*Sorter, error) {
	k, err := l.Kernel("moe/moe", "permute", 0)
	return &Sorter{k, sortParams{X: x, Row: s.Row, First: s.First, Y: y, N: int32(n), Experts: int32(o.Experts)}}, err
}

// Launch does up to so many slots.
func (k *Sorter) Launch(s *driver.Stream, slots int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (slots + 7) / 8, Threads: 256}, &k.p)
}

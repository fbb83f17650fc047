package moe

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// wideParams mirrors WideExpertsParams of wide.h.
type wideParams struct {
	X, Few          driver.TensorMap
	Total, Jobs     driver.Ptr
	W, Up           driver.Ptr
	Bias, UpBias, Y driver.Ptr
	Stride          int64
	N, K, Each, Fn  int32
	Clamp           float32
	_               int32
	_               [5]uint64 // the struct's size is a multiple of its map's alignment, 64
}

// wide is a product bound to the kernel of wide.h.
type wide struct {
	base   wideParams
	op     graph.MoE
	sms    int
	runs   int // tiles of weights
	kernel *driver.Kernel
	shared int
}

// wideEach is how many slots a job of that kernel has; up to wideFew are fetched in smaller boxes.
const (
	wideEach = 128
	wideFew  = 32
)

const wideThreads = 384

// Sorts reports whether products of this size have kernels for large jobs, which want rows sorted by experts.
func Sorts(l *kernels.Loader, n, k int) bool { return l.Hopper() && k%64 == 0 && n%8 == 0 }

func newWide(l *kernels.Loader, p Product, o graph.MoE, s Slots) (*wide, error) {
	w := &wide{op: o, sms: l.SMs(), base: wideParams{
		Total: s.Total, Jobs: s.Jobs, W: p.W, Up: p.Up, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y,
		Stride: Bytes(p.Format, p.N, p.K), N: int32(p.N), K: int32(p.K), Each: wideEach, Fn: int32(o.Fn), Clamp: float32(o.Clamp),
	}}
	name, tile, x := "one", slabRows, p.Sorted
	if p.BySlot {
		x = p.X
	}
	if p.Up != 0 {
		name, tile = "gated", slabRows/2
	}
	w.runs, w.shared = (p.N+tile-1)/tile, wideShared(p.Format)
	var err error
	if w.kernel, err = l.Kernel(forms[p.Format], fmt.Sprint(name, wideEach), w.shared); err != nil {
		return nil, err
	}
	if w.base.X, err = l.Context().ColumnsMap(x, p.Slots, p.K, 2*p.K, wideEach, columns); err != nil {
		return nil, err
	}
	w.base.Few, err = l.Context().ColumnsMap(x, p.Slots, p.K, 2*p.K, wideFew, columns)
	return w, err
}

// wideShared is the shared memory of a block, in bytes, by the words of wide.h.
func wideShared(f quant.Format) int {
	unit := int(Bytes(f, slabRows, 2*columns)) / (2 * slabTiles)
	stage := (2*wideEach*128 + slabTiles*unit + 1023) / 1024 * 1024
	return 1024 + min((224<<10)/stage, 8)*stage
}

func (w *wide) launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, w.kernel, driver.Grid{X: min(w.sms, w.runs*Jobs(w.op, rows, wideEach)), Threads: wideThreads, Shared: w.shared}, &w.base)
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
	k, err := l.Kernel("moe", "sort", 0)
	return &Sorter{k, sortParams{X: x, Row: s.Row, First: s.First, Y: y, N: int32(n), Experts: int32(o.Experts)}}, err
}

// Launch does up to so many slots.
func (k *Sorter) Launch(s *driver.Stream, slots int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (slots + 7) / 8, Threads: 256}, &k.p)
}

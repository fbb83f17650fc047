// Package slab is the linear layer whose weights stay quantised on the GPU, packed in slabs that serve few rows, wgmma and opening alike:
// for up to a few hundred rows they are opened in registers; for more they are opened to bf16 first, by Open.
package slab

import (
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Part is one weight and where its results go.
type Part struct {
	W    driver.Ptr // N × K, as Pack lays it out
	Bias driver.Ptr // [N] float32, or 0
	Y    driver.Ptr // [rows, N] bf16
	N    int
}

// Problem is what one launch computes.
type Problem struct {
	X     driver.Ptr // [Rows, K] bf16
	Rows  int        // that X has room for; launches use the first m
	K     int
	Parts []Part // 1 to 3
	Gated bool   // the parts are a gate and the up matrix, of which the first's Y = fn(gate) × up
	Fn    int32  // a gated problem's graph.Fn: silu or gelu_tanh
}

// Kernel is a problem bound to its kernels: few for up to 8 rows, wide or rows for more.
type Kernel struct {
	base    few
	one     fewKernel // for one row
	eight   fewKernel
	threads int // of a block of those two
	wide    *wide
	rows    *rows
}

// fewKernel is a kernel of few.h with the shared memory of a block, in bytes.
type fewKernel struct {
	kernel *driver.Kernel
	room   int
}

// part mirrors PackedPart of unit.h.
type part struct {
	W, Bias, Y driver.Ptr
	N, Tiles   int32
}

// few mirrors FewParams of few.h.
type few struct {
	X               driver.Ptr
	Part            [3]part
	M, K, Parts, Fn int32

	Turn, Tiles, Each, Units int32
}

// fewRows is how many rows of x a launch of few.h takes.
const fewRows = 8

// New binds a problem to the kernels for a format that Has. partial and arrived are as gemm.New has them.
func New(l *kernels.Loader, f quant.Format, p Problem, partial, arrived driver.Ptr) (*Kernel, error) {
	lay := layouts[f]
	k := &Kernel{base: few{X: p.X, K: int32(p.K), Parts: int32(len(p.Parts)), Fn: p.Fn, Turn: 1, Units: int32(tileUnits(p.K))}}
	for i, w := range p.Parts {
		k.base.Part[i] = part{W: w.W, Bias: w.Bias, Y: w.Y, N: int32(w.N), Tiles: k.base.Tiles}
		k.base.Tiles += int32(tiles(w.N))
	}
	for i := len(p.Parts); i < len(k.base.Part); i++ {
		k.base.Part[i].Tiles = math.MaxInt32
	}
	if p.Gated {
		k.base.Turn = 2
	}
	groups := int(k.base.Tiles / k.base.Turn)
	k.base.Each = int32((groups+l.SMs()-1)/l.SMs()) * k.base.Turn
	// As kernels.h has them.
	k.threads, k.one.room, k.eight.room = 16*32, 131<<10, 163<<10
	if lay.bytes > 640 {
		k.eight.room = 195 << 10
	}
	if !l.Hopper() {
		k.threads, k.one.room, k.eight.room = 8*32, 98<<10, 98<<10
	}
	var err error
	if k.one.kernel, err = l.Kernel(lay.kernels, "one", k.one.room); err != nil {
		return nil, err
	}
	if k.eight.kernel, err = l.Kernel(lay.kernels, "eight", k.eight.room); err != nil {
		return nil, err
	}
	switch {
	case !l.Hopper():
		k.rows, err = newRows(l, lay, p)
	case fits(p):
		k.wide, err = newWide(l, lay, p, partial, arrived)
	}
	return k, err
}

func fits(p Problem) bool {
	for _, w := range p.Parts {
		if !gemm.Fits(graph.BF16, w.N, p.K) || p.K%64 != 0 {
			return false
		}
	}
	return true
}

// Launch computes the first m rows.
func (k *Kernel) Launch(s *driver.Stream, m int) error {
	p := k.base
	for m > 0 {
		n := min(m, fewRows)
		switch {
		case m > fewRows && k.wide != nil:
			return k.wide.launch(s, m)
		case m > fewRows && k.rows != nil:
			n = min(m, rowsMost)
			if err := k.rows.launch(s, &p, n); err != nil {
				return err
			}
		default:
			if err := k.launch(s, p, n); err != nil {
				return err
			}
		}
		m -= n
		p.X += driver.Ptr(2 * n * int(p.K))
		for i := range p.Parts {
			p.Part[i].Y += driver.Ptr(2 * n * int(p.Part[i].N))
		}
	}
	return nil
}

// launch computes up to fewRows rows with the kernels of few.h.
func (k *Kernel) launch(s *driver.Stream, p few, m int) error {
	v := &k.eight
	if m == 1 {
		v = &k.one
	}
	p.M = int32(m)
	return driver.Launch(s, v.kernel, driver.Grid{X: int((p.Tiles + p.Each - 1) / p.Each), Threads: k.threads, Shared: v.room}, &p)
}

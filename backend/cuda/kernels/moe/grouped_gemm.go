package moe

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Product is one grouped GEMM: all experts' weights with the rows routed to them. A gated one computes act(gate) × up of two matrices, a squared one
// max(x, 0)² of what one matrix gives.
type Product struct {
	X        driver.Ptr // [rows, K] bf16; or, when BySlot, [slots, K]
	BySlot   bool
	Permuted driver.Ptr // [slots, K] bf16: rows of X as Permuter copies them; X itself when BySlot
	W        driver.Ptr // [experts] of N × K, as Pack lays them out, or of a gated product as PackInterleaved does
	Gated    bool
	Squared  bool
	Y        driver.Ptr // [slots, N] bf16
	N, K     int
	Slots    int // that Permuted and Y have room for

	Bias, UpBias driver.Ptr // [experts, N] float32, or 0
	Format       quant.Format
}

// fn is the activation of the product's results.
func (p Product) fn(o graph.MoE) int32 {
	switch {
	case p.Gated:
		return int32(o.Fn)
	case p.Squared:
		return int32(graph.Relu2)
	}
	return int32(graph.Identity)
}

// bytes is the size of one expert's weights.
func (p Product) bytes() int64 {
	if p.Gated {
		return Bytes(p.Format, 2*p.N, p.K)
	}
	return Bytes(p.Format, p.N, p.K)
}

// groupedGemmParams mirrors GroupedGemmParams of grouped_gemm.h.
type groupedGemmParams struct {
	X, Row, Total, Jobs   driver.Ptr
	W, Bias, UpBias, Y    driver.Ptr
	Stride                int64
	N, K, Each, Split, Fn int32
	Clamp                 float32
}

// GroupedGemm is a grouped GEMM by mma.sync bound to its kernels, one for each size of a job; larger jobs run on the sm_90 kernel.
type GroupedGemm struct {
	base    groupedGemmParams
	op      graph.MoE
	format  quant.Format
	sms     int
	kernels [len(sizes)]*driver.Kernel
	sm90    *groupedGemmSM90 // for larger jobs
}

// sizes are the most slots of a job of each kernel of grouped_gemm.h.
var sizes = [...]int{8, 16, MaxUnpermuted}

const warps = 4 // of a block of grouped_gemm.h

// sharedOf is the shared memory of a block, in bytes: two units' columns of the job's rows for each warp, in lines as grouped_gemm.h has them.
func sharedOf(f quant.Format, each int) int {
	line := 2*columns + 16
	if f == quant.BF16 {
		line = 2*columns + 64
	}
	return warps * 2 * each * line
}

// LeastEach is the smallest size of a job.
const LeastEach = 8

// Each is the size of a job that suits so many rows: that of an expert with an even share of them, or somewhat more. Jobs of more than
// MaxUnpermuted slots need the sm_90 kernels; weights in BF16, which need no dequantising, gain by them with fewer slots.
func Each(o graph.MoE, format quant.Format, rows int, sm90 bool) int {
	even := (rows*o.TopK + o.Experts - 1) / o.Experts
	if sm90 && (even >= 8 || format == quant.BF16 && rows >= 4) {
		if even <= sm90SmallJobSlots*7/8 { // few experts have an eighth more than that
			return sm90SmallJobSlots
		}
		return sm90JobSlots
	}
	for _, s := range sizes {
		if rows <= s || 3*even <= 2*s {
			return s
		}
	}
	return MaxUnpermuted
}

// MaxUnpermuted is the largest job of the kernels that find the rows of x themselves.
const MaxUnpermuted = 32

// NewGroupedGemm binds a product to the kernels of its size and format.
func NewGroupedGemm(l *kernels.Loader, p Product, o graph.MoE, s Slots) (*GroupedGemm, error) {
	k := &GroupedGemm{op: o, format: p.Format, sms: l.SMs(), base: groupedGemmParams{
		X: p.X, Total: s.Total, Jobs: s.Jobs, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(), N: int32(p.N), K: int32(p.K), Fn: p.fn(o), Clamp: float32(o.Clamp),
	}}
	if !p.BySlot {
		k.base.Row = s.Row
	}
	name := "down"
	if p.Gated {
		name = "gated"
	}
	sm90 := HasSM90(l, o, p.N, p.K)
	for i, size := range sizes {
		if sm90 && size == MaxUnpermuted {
			break // Each takes larger ones instead
		}
		var err error
		if k.kernels[i], err = l.Kernel(modules[p.Format].name, fmt.Sprint(name, size), sharedOf(p.Format, size)); err != nil {
			return nil, err
		}
	}
	if !sm90 {
		return k, nil
	}
	var err error
	k.sm90, err = newGroupedGemmSM90(l, p, o, s)
	return k, err
}

// Launch computes the slots of up to so many rows, in jobs of each. Where there are too few tiles for several waves
// of blocks, warps share a tile (split-K), as long as each has two units or more.
func (k *GroupedGemm) Launch(s *driver.Stream, rows, each int) error {
	if each > MaxUnpermuted {
		return k.sm90.launch(s, rows, each)
	}
	at := 0
	for sizes[at] < each {
		at++
	}
	p, all := k.base, float64(tiles(int(k.base.N)))*float64(k.op.Experts)*k.op.Reached(int64(rows))
	p.Each, p.Split = int32(each), 1
	for p.Split < warps && 4*int(p.Split) <= units(int(p.K)) && all*float64(p.Split) < 6*float64(warps*k.sms*3) {
		p.Split *= 2
	}
	group := warps / int(p.Split)
	runs := (tiles(int(p.N)) + group - 1) / group
	return driver.Launch(s, k.kernels[at], driver.Grid{X: runs * Jobs(k.op, rows, each), Threads: warps * 32, Shared: sharedOf(k.format, each)}, &p)
}

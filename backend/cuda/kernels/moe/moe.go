// Package moe is a mixture-of-experts block (graph.MoE) on the GPU: routing (top-k), grouped GEMMs of the experts over their rows, and each
// row's weighted sum. Nothing of it goes to the host, so that CUDA graphs can capture it.
package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// The most experts of a block, and of a row.
const (
	MaxExperts = 1024
	MaxTop     = 64
)

// JobBytes is the size of a job's descriptor.
const JobBytes = 16

// Slots is the routing of a step's rows in device memory. A slot is one expert of one row; slots are sorted by expert.
type Slots struct {
	Chosen driver.Ptr // [rows × top] int32 experts of each row
	Share  driver.Ptr // [rows × top] float32
	Slot   driver.Ptr // [rows × top] int32, its slot
	Row    driver.Ptr // [slots] int32, the slot's row
	First  driver.Ptr // [experts + 1] int32, where an expert's slots begin
	Total  driver.Ptr // int32, how many jobs there are
	Jobs   driver.Ptr // [jobs] of JobBytes
}

// routeParams mirrors RouteParams of route.h.
type routeParams struct {
	Step   kernels.Step
	Scores driver.Ptr
	Slots
	Count, Experts, Top, OfAll, Each int32
	Begin, Held                      int32 // the device's experts
	_                                int32
}

// Router finds the experts of each row and assigns the slots.
type Router struct {
	route, align *driver.Kernel
	p            routeParams
}

// oneBlockRows is the most rows that one block routes and aligns in one launch.
const (
	oneBlockRows = 16
	routeThreads = 512
	routeWarps   = routeThreads / 32
)

// NewRouter binds the scores [rows, experts] of a type; the step's counts[count] is the number of rows.
func NewRouter(l *kernels.Loader, t graph.Type, scores driver.Ptr, o graph.MoE, count int, s Slots) (*Router, error) {
	r := &Router{p: routeParams{Scores: scores, Slots: s, Count: int32(count), Experts: int32(o.Experts), Top: int32(o.TopK), OfAll: shares(o), Begin: int32(o.First), Held: int32(Held(o))}}
	var err error
	if r.route, err = l.Kernel("moe/moe", kernels.Name("route", t), 0); err != nil {
		return nil, err
	}
	r.align, err = l.Kernel("moe/moe", "align_slots", 0)
	return r, err
}

// Held is how many experts a device has of a block's.
func Held(o graph.MoE) int {
	if o.Held > 0 {
		return o.Held
	}
	return o.Experts
}

// shares is how a block's shares are made of its scores, as route.h numbers the ways.
func shares(o graph.MoE) int32 {
	switch {
	case o.Shares:
		return 2
	case o.NoRenorm:
		return 1
	}
	return 0
}

// Launch routes up to so many rows, in jobs of up to each slots.
func (r *Router) Launch(s *driver.Stream, step *kernels.Step, rows, each int) error {
	r.p.Step, r.p.Each = *step, int32(each)
	blocks := 1
	if rows > oneBlockRows {
		blocks = (rows + routeWarps - 1) / routeWarps
	}
	if err := driver.Launch(s, r.route, driver.Grid{X: blocks, Threads: routeThreads}, &r.p); err != nil || blocks == 1 {
		return err
	}
	return driver.Launch(s, r.align, driver.Grid{X: int(r.p.Held), Threads: routeThreads}, &r.p)
}

// Jobs is the most jobs that rows of so many can make.
func Jobs(o graph.MoE, rows, each int) int {
	return min(o.Experts, rows*o.TopK) + rows*o.TopK/each
}

// combineParams mirrors CombineParams of moe.cu.
type combineParams struct {
	Step                 kernels.Step
	Down, Slot, Share, Y driver.Ptr
	N, Top, Count        int32
	_                    int32
}

// Combine adds up each row's results, weighted by their shares.
type Combine struct {
	kernel *driver.Kernel
	p      combineParams
}

// NewCombine binds results down [slots, n] of a type and their sums y [rows, n].
func NewCombine(l *kernels.Loader, t graph.Type, down, y driver.Ptr, n int, o graph.MoE, count int, s Slots) (*Combine, error) {
	k, err := l.Kernel("moe/moe", kernels.Name("combine", t), 0)
	return &Combine{k, combineParams{Down: down, Slot: s.Slot, Share: s.Share, Y: y, N: int32(n), Top: int32(o.TopK), Count: int32(count)}}, err
}

// Launch combines up to so many rows. inOrder: slot r × top + k is place k of row r, as GroupedGemv has it.
func (k *Combine) Launch(s *driver.Stream, step *kernels.Step, rows int, inOrder bool) error {
	const threads, each = 128, 8 * 128
	p := k.p
	if p.Step = *step; inOrder {
		p.Slot = 0
	}
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(p.N) + each - 1) / each, Y: rows, Threads: threads}, &p)
}

// combineNormParams mirrors CombineNormParams of moe.cu.
type combineNormParams struct {
	of                      combineParams
	Residual, Total, Weight driver.Ptr
	Eps                     float32
	Early                   int32
}

// AddNorm is the residual add and the RMSNorm behind a block, fused into the combine.
type AddNorm struct {
	Residual driver.Ptr // [rows, n]
	Total    driver.Ptr // [rows, n] receives their sum with Y
	Weight   driver.Ptr // [n] float32
	Y        driver.Ptr // [rows, n] receives the normalised Total
	Eps      float32
}

// CombineNormFits reports whether the combine of rows of n numbers can be fused with the norm behind it.
func CombineNormFits(n int) bool { return n%8 == 0 && n <= 4096 }

// CombineNorm is Combine fused with AddNorm.
type CombineNorm struct {
	kernel *driver.Kernel
	p      combineNormParams
}

// NewCombineNorm is NewCombine in BF16, with the add and norm behind it.
func NewCombineNorm(l *kernels.Loader, down driver.Ptr, n int, o graph.MoE, count int, s Slots, to AddNorm) (*CombineNorm, error) {
	k, err := l.Kernel("moe/moe", "combine_norm", 0)
	return &CombineNorm{k, combineNormParams{
		of:       combineParams{Down: down, Slot: s.Slot, Share: s.Share, Y: to.Y, N: int32(n), Top: int32(o.TopK), Count: int32(count)},
		Residual: to.Residual, Total: to.Total, Weight: to.Weight, Eps: to.Eps,
	}}, err
}

// Launch combines up to so many rows; inOrder as for Combine.
func (k *CombineNorm) Launch(s *driver.Stream, step *kernels.Step, rows int, inOrder bool) error {
	p := k.p
	if p.of.Step = *step; inOrder {
		p.of.Slot, p.Early = 0, 1
	}
	return driver.Launch(s, k.kernel, driver.Grid{X: rows, Threads: (int(p.of.N)/8 + 31) / 32 * 32}, &p)
}

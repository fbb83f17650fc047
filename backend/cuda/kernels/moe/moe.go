// Package moe is a block of many experts (graph.MoE) on the GPU: which rows pass which experts, the experts' products over those rows, and
// each row's sum. Nothing of it goes to the host, so a step of it can be recorded.
package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// A block may have so many experts, and each row so many of them.
const (
	MaxExperts = 1024
	MaxTop     = 64
)

// JobBytes is what is noted of a job.
const JobBytes = 16

// Slots is where the rows' experts are noted, in device memory. A slot is one expert of one row.
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
	_                                int32
}

// Router finds the experts of each row and assigns the slots.
type Router struct {
	route, align *driver.Kernel
	p            routeParams
}

// aloneRows is up to how many rows one block does all of it.
const (
	aloneRows    = 16
	routeThreads = 512
	routeWarps   = routeThreads / 32
)

// NewRouter binds the scores [rows, experts] of a type; count is which of a step's counts says how many rows there are.
func NewRouter(l *kernels.Loader, t graph.Type, scores driver.Ptr, o graph.MoE, count int, s Slots) (*Router, error) {
	r := &Router{p: routeParams{Scores: scores, Slots: s, Count: int32(count), Experts: int32(o.Experts), Top: int32(o.TopK)}}
	if o.NoRenorm {
		r.p.OfAll = 1
	}
	var err error
	if r.route, err = l.Kernel("moe/moe", kernels.Name("route", t), 0); err != nil {
		return nil, err
	}
	r.align, err = l.Kernel("moe/moe", "align_slots", 0)
	return r, err
}

// Launch does up to so many rows; each is how many slots a job has.
func (r *Router) Launch(s *driver.Stream, step *kernels.Step, rows, each int) error {
	r.p.Step, r.p.Each = *step, int32(each)
	blocks := 1
	if rows > aloneRows {
		blocks = (rows + routeWarps - 1) / routeWarps
	}
	if err := driver.Launch(s, r.route, driver.Grid{X: blocks, Threads: routeThreads}, &r.p); err != nil || blocks == 1 {
		return err
	}
	return driver.Launch(s, r.align, driver.Grid{X: int(r.p.Experts), Threads: routeThreads}, &r.p)
}

// Jobs is the most jobs that rows of so many can make.
func Jobs(o graph.MoE, rows, each int) int {
	return min(o.Experts, rows*o.TopK) + rows*o.TopK/each
}

// sumParams mirrors SumParams of moe.cu.
type sumParams struct {
	Step                 kernels.Step
	Down, Slot, Share, Y driver.Ptr
	N, Top, Count        int32
	_                    int32
}

// Summer adds up each row's results.
type Summer struct {
	kernel *driver.Kernel
	p      sumParams
}

// NewSummer binds results [slots, n] of a type and where rows of their sums go.
func NewSummer(l *kernels.Loader, t graph.Type, down, y driver.Ptr, n int, o graph.MoE, count int, s Slots) (*Summer, error) {
	k, err := l.Kernel("moe/moe", kernels.Name("combine", t), 0)
	return &Summer{k, sumParams{Down: down, Slot: s.Slot, Share: s.Share, Y: y, N: int32(n), Top: int32(o.TopK), Count: int32(count)}}, err
}

// Launch does up to so many rows. Those of Few are in order.
func (k *Summer) Launch(s *driver.Stream, step *kernels.Step, rows int, few bool) error {
	const threads, each = 128, 8 * 128
	p := k.p
	if p.Step = *step; few {
		p.Slot = 0
	}
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(p.N) + each - 1) / each, Y: rows, Threads: threads}, &p)
}

// sumNormParams mirrors SumNormParams of moe.cu.
type sumNormParams struct {
	of                      sumParams
	Residual, Total, Weight driver.Ptr
	Eps                     float32
	Early                   int32
}

// Normed is what happens to rows of sums in the same launch: they are added to others in BF16, and what that gives is normalised (RMSNorm).
type Normed struct {
	Residual driver.Ptr // [rows, n]
	Total    driver.Ptr // [rows, n] receives their sum with Y
	Weight   driver.Ptr // [n] float32
	Y        driver.Ptr // [rows, n] receives what that normalises to
	Eps      float32
}

// NormedFits reports whether sums of n numbers can be normalised so.
func NormedFits(n int) bool { return n%8 == 0 && n <= 4096 }

// SumNormer is a Summer with a normalisation behind it.
type SumNormer struct {
	kernel *driver.Kernel
	p      sumNormParams
}

// NewSumNormer is NewSummer of BF16 for sums that go on as Normed says.
func NewSumNormer(l *kernels.Loader, down driver.Ptr, n int, o graph.MoE, count int, s Slots, to Normed) (*SumNormer, error) {
	k, err := l.Kernel("moe/moe", "combine_norm", 0)
	return &SumNormer{k, sumNormParams{
		of:       sumParams{Down: down, Slot: s.Slot, Share: s.Share, Y: to.Y, N: int32(n), Top: int32(o.TopK), Count: int32(count)},
		Residual: to.Residual, Total: to.Total, Weight: to.Weight, Eps: to.Eps,
	}}, err
}

// Launch does up to so many rows, of Few's slots or others.
func (k *SumNormer) Launch(s *driver.Stream, step *kernels.Step, rows int, few bool) error {
	p := k.p
	if p.of.Step = *step; few {
		p.of.Slot, p.Early = 0, 1
	}
	return driver.Launch(s, k.kernel, driver.Grid{X: rows, Threads: (int(p.of.N)/8 + 31) / 32 * 32}, &p)
}

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

// Router finds the experts of each row and deals the slots.
type Router struct {
	route, deal *driver.Kernel
	p           routeParams
}

// aloneRows is up to how many rows one block does all of it.
const (
	aloneRows    = 16
	routeThreads = 512
	routeWarps   = routeThreads / 32
)

// NewRouter binds the scores [rows, experts] of a type; count is which of a step's counts says how many rows there are.
func NewRouter(l *kernels.Loader, t graph.Type, scores driver.Ptr, o graph.MoE, count int, s Slots) (*Router, error) {
	r := &Router{p: routeParams{Scores: scores, Slots: s, Count: int32(count), Experts: int32(o.Experts), Top: int32(o.Top)}}
	if o.OfAll {
		r.p.OfAll = 1
	}
	var err error
	if r.route, err = l.Kernel("moe", kernels.Name("route", t), 0); err != nil {
		return nil, err
	}
	r.deal, err = l.Kernel("moe", "deal", 0)
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
	return driver.Launch(s, r.deal, driver.Grid{X: int(r.p.Experts), Threads: routeThreads}, &r.p)
}

// Jobs is the most jobs that rows of so many can make.
func Jobs(o graph.MoE, rows, each int) int {
	return min(o.Experts, rows*o.Top) + rows*o.Top/each
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
	k, err := l.Kernel("moe", kernels.Name("sum", t), 0)
	return &Summer{k, sumParams{Down: down, Slot: s.Slot, Share: s.Share, Y: y, N: int32(n), Top: int32(o.Top), Count: int32(count)}}, err
}

// Launch does up to so many rows.
func (k *Summer) Launch(s *driver.Stream, step *kernels.Step, rows int) error {
	const threads, each = 128, 8 * 128
	k.p.Step = *step
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(k.p.N) + each - 1) / each, Y: rows, Threads: threads}, &k.p)
}

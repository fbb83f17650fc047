package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// PlainEach is the size of a job of plain products.
const PlainEach = 64

// plainParams mirrors PlainParams of simt.h.
type plainParams struct {
	X, Row, Total, Jobs, W, Bias, Y driver.Ptr
	N, K, Each, Round               int32
}

// Plain is a product of all experts, of rows and weights in any floats.
type Plain struct {
	op     graph.MoE
	kernel *driver.Kernel
	p      plainParams
}

// NewPlain binds a product; its W is row-major of the type w, and it is not gated. X and Y are of type x.
func NewPlain(l *kernels.Loader, x, w graph.Type, p Product, o graph.MoE, s Slots) (*Plain, error) {
	k := &Plain{op: o, p: plainParams{
		X: p.X, Total: s.Total, Jobs: s.Jobs, W: p.W, Bias: p.Bias, Y: p.Y,
		N: int32(p.N), K: int32(p.K), Each: PlainEach,
	}}
	if !p.BySlot {
		k.p.Row = s.Row
	}
	if o.ActType == graph.BF16 {
		k.p.Round = 1
	}
	var err error
	k.kernel, err = l.Kernel("moe/moe", kernels.Name("simt", x, w), 0)
	return k, err
}

// Launch computes the slots of up to so many rows, in jobs of PlainEach.
func (k *Plain) Launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(k.p.N) + 63) / 64 * Jobs(k.op, rows, PlainEach), Threads: 256}, &k.p)
}

// joinParams mirrors JoinParams of simt.h.
type joinParams struct {
	Gate, Up, First driver.Ptr
	N, Experts, Fn  int32
	Clamp           float32
}

// Joiner makes fn(gate) × up of every slot, in place of the gate.
type Joiner struct {
	kernel *driver.Kernel
	sms    int
	p      joinParams
}

// NewJoiner binds gates and ups [slots, n] of a type.
func NewJoiner(l *kernels.Loader, t graph.Type, gate, up driver.Ptr, n int, o graph.MoE, s Slots) (*Joiner, error) {
	k, err := l.Kernel("moe/moe", kernels.Name("gated_activation", t), 0)
	return &Joiner{k, l.SMs(), joinParams{Gate: gate, Up: up, First: s.First, N: int32(n), Experts: int32(o.Experts), Fn: int32(o.Fn), Clamp: float32(o.Clamp)}}, err
}

// Launch does the step's slots.
func (k *Joiner) Launch(s *driver.Stream) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: 4 * k.sms, Threads: 256}, &k.p)
}

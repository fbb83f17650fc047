package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// SimtJobSlots is the size of a job of the SIMT fallback.
const SimtJobSlots = 64

// simtParams mirrors SimtParams of simt.h.
type simtParams struct {
	X, Row, Total, Jobs, W, Bias, Y driver.Ptr
	N, K, Each, Round               int32
}

// Simt is the SIMT fallback of a grouped GEMM, for rows and weights in any floats.
type Simt struct {
	op     graph.MoE
	kernel *driver.Kernel
	p      simtParams
}

// NewSimt binds a product; its W is row-major of the type w, and it is not gated. X and Y are of type x.
func NewSimt(l *kernels.Loader, x, w graph.Type, p Product, o graph.MoE, s Slots) (*Simt, error) {
	k := &Simt{op: o, p: simtParams{
		X: p.X, Total: s.Total, Jobs: s.Jobs, W: p.W, Bias: p.Bias, Y: p.Y,
		N: int32(p.N), K: int32(p.K), Each: SimtJobSlots,
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

// Launch computes the slots of up to so many rows, in jobs of SimtJobSlots.
func (k *Simt) Launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: (int(k.p.N) + 63) / 64 * Jobs(k.op, rows, SimtJobSlots), Threads: 256}, &k.p)
}

// activationParams mirrors ActivationParams of simt.h.
type activationParams struct {
	Gate, Up, First driver.Ptr
	N, Experts, Fn  int32
	Clamp           float32
}

// GatedActivation makes fn(gate) × up of every slot, in place of the gate.
type GatedActivation struct {
	kernel *driver.Kernel
	sms    int
	p      activationParams
}

// NewGatedActivation binds gates and ups [slots, n] of a type.
func NewGatedActivation(l *kernels.Loader, t graph.Type, gate, up driver.Ptr, n int, o graph.MoE, s Slots) (*GatedActivation, error) {
	k, err := l.Kernel("moe/moe", kernels.Name("gated_activation", t), 0)
	return &GatedActivation{k, l.SMs(), activationParams{Gate: gate, Up: up, First: s.First, N: int32(n), Experts: int32(Held(o)), Fn: int32(o.Fn), Clamp: float32(o.Clamp)}}, err
}

// Launch does the step's slots.
func (k *GatedActivation) Launch(s *driver.Stream) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: 4 * k.sms, Threads: 256}, &k.p)
}

package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// SharesParams mirrors SharesParams of shares.cu.
type SharesParams struct {
	Scores, Bias, Shares           driver.Ptr // [Rows, Experts] of the kernel's type; [Experts] float32, or 0; [Rows, Experts] float32
	Rows, Experts, Top             int32
	Sigmoid, NoRenorm              int32
	Groups, TopGroups, BestOfGroup int32 // Groups 0: none
	Scale, Mixer                   float32
}

// Shares is graph.Route.
type Shares struct {
	kernel *driver.Kernel
	P      SharesParams
}

const sharesWarps = 4 // a row each

// NewShares binds the scores of so many experts, of a type, and their shares.
func NewShares(l *kernels.Loader, t graph.Type, scores, shares driver.Ptr, experts int, o graph.Route) (*Shares, error) {
	k, err := l.Kernel("moe/shares", kernels.Name("route_shares", t), 0)
	p := SharesParams{
		Scores: scores, Shares: shares, Experts: int32(experts), Top: int32(o.TopK),
		Groups: int32(o.Groups), TopGroups: int32(o.TopGroups), BestOfGroup: 1, Scale: 1, Mixer: float32(o.Mixer),
	}
	if o.Sigmoid {
		p.Sigmoid = 1
	}
	if o.NoRenorm {
		p.NoRenorm = 1
	}
	if o.BestTwo {
		p.BestOfGroup = 2
	}
	if o.Scale != 0 {
		p.Scale = float32(o.Scale)
	}
	return &Shares{k, p}, err
}

// Launch makes the shares of so many rows.
func (k *Shares) Launch(s *driver.Stream, rows int) error {
	k.P.Rows = int32(rows)
	return driver.Launch(s, k.kernel, driver.Grid{X: (rows + sharesWarps - 1) / sharesWarps, Threads: 32 * sharesWarps}, &k.P)
}

// GateRowsParams mirrors GateRowsParams of shares.cu.
type GateRowsParams struct {
	X, Gate, Y driver.Ptr // [rows, N], [rows, Gates], [rows, N]
	N, Gates   int32
}

// GateRows is graph.GateRows.
type GateRows struct{ kernel *driver.Kernel }

// NewGateRows is the kernel for values of type t.
func NewGateRows(l *kernels.Loader, t graph.Type) (*GateRows, error) {
	k, err := l.Kernel("moe/shares", kernels.Name("gate_rows", t), 0)
	return &GateRows{k}, err
}

// Launch multiplies so many rows.
func (k *GateRows) Launch(s *driver.Stream, rows int, p *GateRowsParams) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: rows, Threads: 256}, p)
}

package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Limits of single_row.h.
const (
	maxSingleTop      = 32
	maxSingleExperts  = 256
	maxGatedWarps     = 8
	maxDownWarps      = 16
	maxSingleRowBytes = 64 << 10  // bytes of rows of x
	maxSingleShared   = 224 << 10 // bytes
	maxSingleUnits    = 4         // of a warp
)

// singleRowParams mirrors SingleRowParams of single_row.h.
type singleRowParams struct {
	Scores, X, W, Bias, UpBias, Y, Residual driver.Ptr
	Stride                                  int64
	N, K, Experts, Top, OfAll, Fn           int32
	Clamp                                   float32
	F32Scores, Depth, _                     int32
}

// SingleRow is a whole block in two launches for a row or two, each computed by itself. Its kernels route the rows themselves.
type SingleRow struct {
	gated, down singleRowProduct
}

type singleRowProduct struct {
	p      singleRowParams
	kernel *driver.Kernel
	blocks int // for a row
	warps  int // of a block
	units  int // of a warp
	shared int
}

// MaxSingleRows is the most rows that SingleRow computes. Where GroupedGemv takes the products too, SingleRow is faster with one row only; it is slower where
// a warp would have more than a few units (one row, SingleRow and the others: gpt-oss-20b 45 and 37 µs, Qwen3-30B-A3B 16 and 23 µs).
func MaxSingleRows(l *kernels.Loader, o graph.MoE, gated, down Product) int {
	if !gated.Gated || o.Held > 0 || o.TopK > maxSingleTop || o.Experts > maxSingleExperts || gated.K%8 != 0 || down.K%8 != 0 || o.TopK*rowBytes(down.K) > maxSingleRowBytes || rowBytes(gated.K) > maxSingleRowBytes {
		return 0
	}
	s := newSingleRow(l, gated, down, o)
	switch {
	case s.gated.units > maxSingleUnits || s.down.units > maxSingleUnits:
		return 0
	case MaxGemvRows(l, o, gated, down) > 0:
		return 1
	}
	return 2
}

// rowBytes is the size of a row of x in shared memory.
func rowBytes(k int) int { return (k + columns - 1) / columns * columns * 2 }

// newSingleRow divides a block's products among warps.
func newSingleRow(l *kernels.Loader, gated, down Product, o graph.MoE) *SingleRow {
	return &SingleRow{gated: newSingleRowProduct(l, gated, o, maxGatedWarps), down: newSingleRowProduct(l, down, o, maxDownWarps)}
}

// NewSingleRow binds a block's products, of which the second has the first's results by slots, and y [rows, N of the second]. scores is of type t;
// residual, like y, is added to the results, unless it is 0.
func NewSingleRow(l *kernels.Loader, t graph.Type, scores driver.Ptr, gated, down Product, y, residual driver.Ptr, o graph.MoE) (*SingleRow, error) {
	down.Y = y
	s := newSingleRow(l, gated, down, o)
	s.down.p.Residual = residual
	for _, p := range []*singleRowParams{&s.gated.p, &s.down.p} {
		if p.Scores = scores; t == graph.F32 {
			p.F32Scores = 1
		}
	}
	var err error
	if s.gated.kernel, err = l.Kernel(modules[gated.Format].name, "single_row_gated", maxSingleShared); err != nil {
		return nil, err
	}
	s.down.kernel, err = l.Kernel(modules[down.Format].name, "single_row_down", maxSingleShared)
	return s, err
}

// newSingleRowProduct divides a product's units among as many warps as run at once, up to most in a block.
func newSingleRowProduct(l *kernels.Loader, p Product, o graph.MoE, most int) singleRowProduct {
	s := singleRowProduct{blocks: tiles(p.N), warps: 1, p: singleRowParams{
		X: p.X, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(), N: int32(p.N), K: int32(p.K),
		Experts: int32(o.Experts), Top: int32(o.TopK), OfAll: shares(o), Fn: int32(o.Fn), Clamp: float32(o.Clamp),
	}}
	units, lines, unit := (p.K+columns-1)/columns, 1, int(Bytes(p.Format, panelRows, 2*columns))/(2*panelTiles)
	if p.Gated {
		s.blocks *= o.TopK
		unit *= 2
	} else {
		units *= o.TopK
		lines = o.TopK
	}
	for s.warps < most && 4*s.warps <= units && 2*s.warps*s.blocks <= 16*l.SMs() {
		s.warps *= 2
	}
	depth := 4 // as single_row.h has it
	if p.Format == quant.BF16 {
		depth = 2
	}
	s.units = (units + s.warps - 1) / s.warps
	s.p.Depth = int32(min(depth, s.units))
	s.shared = lines*rowBytes(p.K) + s.warps*int(s.p.Depth)*unit
	return s
}

// Launch computes so many rows.
func (k *SingleRow) Launch(s *driver.Stream, rows int) error {
	if err := k.gated.launch(s, rows); err != nil {
		return err
	}
	return k.down.launch(s, rows)
}

func (k *singleRowProduct) launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: k.blocks, Y: rows, Threads: 32 * k.warps, Shared: k.shared}, &k.p)
}

package moe

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// What single_row.h has room for.
const (
	maxSingleTop     = 32
	maxSingleExperts = 256
	maxGatedWarps    = 8
	maxDownWarps     = 16
	maxSingleLines   = 64 << 10  // bytes of rows of x
	maxSingleShared  = 224 << 10 // bytes
	maxSingleUnits   = 4         // of a warp
)

// singleParams mirrors SingleParams of single_row.h.
type singleParams struct {
	Scores, X, W, Bias, UpBias, Y, Residual driver.Ptr
	Stride                                  int64
	N, K, Experts, Top, OfAll, Fn           int32
	Clamp                                   float32
	Wide, Depth, _                          int32
}

// Single is a whole block for a few rows: it chooses their experts itself.
type Single struct {
	gated, down singleProduct
}

type singleProduct struct {
	p      singleParams
	kernel *driver.Kernel
	blocks int // for a row
	warps  int // of a block
	units  int // of a warp
	shared int
}

// SingleRows is up to how many rows of a block of these products are computed each by itself. Beside Few that gains with one row; it loses where a warp
// would have more than a few units (gpt-oss-20b, one row: 45 µs, others 37; Qwen3-30B-A3B 16 and 23).
func SingleRows(l *kernels.Loader, o graph.MoE, gated, down Product) int {
	if o.TopK > maxSingleTop || o.Experts > maxSingleExperts || gated.K%8 != 0 || down.K%8 != 0 || o.TopK*lineBytes(down.K) > maxSingleLines || lineBytes(gated.K) > maxSingleLines {
		return 0
	}
	s := newSingle(l, gated, down, o)
	switch {
	case s.gated.units > maxSingleUnits || s.down.units > maxSingleUnits:
		return 0
	case FewRows(l, o, gated, down) > 0:
		return 1
	}
	return 2
}

// lineBytes is what a row of x takes in shared memory.
func lineBytes(k int) int { return (k + columns - 1) / columns * columns * 2 }

// newSingle divides a block's products.
func newSingle(l *kernels.Loader, gated, down Product, o graph.MoE) *Single {
	return &Single{gated: newSingleProduct(l, gated, o, maxGatedWarps), down: newSingleProduct(l, down, o, maxDownWarps)}
}

// NewSingle binds a block's products, of which the second has the first's results by slots, and y [rows, N of the second]. scores is of type t;
// residual, like y, is added to the results, unless it is 0.
func NewSingle(l *kernels.Loader, t graph.Type, scores driver.Ptr, gated, down Product, y, residual driver.Ptr, o graph.MoE) (*Single, error) {
	down.Y = y
	s := newSingle(l, gated, down, o)
	s.down.p.Residual = residual
	for _, p := range []*singleParams{&s.gated.p, &s.down.p} {
		if p.Scores = scores; t == graph.F32 {
			p.Wide = 1
		}
	}
	var err error
	if s.gated.kernel, err = l.Kernel(forms[gated.Format], "single_row_gated", maxSingleShared); err != nil {
		return nil, err
	}
	s.down.kernel, err = l.Kernel(forms[down.Format], "single_row_down", maxSingleShared)
	return s, err
}

// newSingleProduct divides a product's units over so many warps as are at work at once, up to most in a block.
func newSingleProduct(l *kernels.Loader, p Product, o graph.MoE, most int) singleProduct {
	s := singleProduct{blocks: tiles(p.N), warps: 1, p: singleParams{
		X: p.X, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(), N: int32(p.N), K: int32(p.K),
		Experts: int32(o.Experts), Top: int32(o.TopK), Fn: int32(o.Fn), Clamp: float32(o.Clamp),
	}}
	if o.NoRenorm {
		s.p.OfAll = 1
	}
	units, lines, unit := (p.K+columns-1)/columns, 1, int(Bytes(p.Format, slabRows, 2*columns))/(2*slabTiles)
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
	s.shared = lines*lineBytes(p.K) + s.warps*int(s.p.Depth)*unit
	return s
}

// Launch computes so many rows.
func (k *Single) Launch(s *driver.Stream, rows int) error {
	if err := k.gated.launch(s, rows); err != nil {
		return err
	}
	return k.down.launch(s, rows)
}

func (k *singleProduct) launch(s *driver.Stream, rows int) error {
	return driver.Launch(s, k.kernel, driver.Grid{X: k.blocks, Y: rows, Threads: 32 * k.warps, Shared: k.shared}, &k.p)
}

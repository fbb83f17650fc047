package moe

import (
	"math"
	"math/bits"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Limits of grouped_gemv.h.
const (
	gemvJobs     = 256
	gemvExperts  = 256
	gemvTop      = 32
	gemvRows     = 32
	gemvJobSlots = 4 // slots of a job

	gemvJobBytes = 32*gemvJobs + 128 // bytes of a block's jobs
)

// groupedGemvParams mirrors GroupedGemvParams of gemv_jobs.h.
type groupedGemvParams struct {
	X, Scores, Counts, Share, W, Bias, UpBias, Y driver.Ptr
	Stride                                       int64
	N, K, Rows, Count, RunsLog                   int32
	OfTiles, OfGrid                              uint32
	Experts, Top, OfAll, F32Scores, Fn           int32
	Clamp                                        float32
	Each                                         int32 // 1, 2 or 4
}

// GroupedGemv is a block's two products for few rows, in any packed format. Its kernels route the rows themselves.
type GroupedGemv struct {
	op          graph.MoE
	gated, down gemvProduct
}

type gemvProduct struct {
	base   groupedGemvParams
	block  gemvBlock
	tiles  int // of an expert
	units  int // of a tile
	sms    int
	kernel *driver.Kernel
}

// gemvBlock is the shape of a block of grouped_gemv.h; shared memory in bytes. It takes more than half of a multiprocessor's, so that no multiprocessor
// gets two blocks while another has none.
type gemvBlock struct{ warps, ring, least, most, unit, subs int }

func gemvBlockOf(l *kernels.Loader, f quant.Format) gemvBlock {
	b := gemvBlock{warps: 16, ring: 93 << 10, least: 116 << 10, most: 226 << 10, unit: int(Bytes(f, panelRows, 2*columns)) / (2 * panelTiles), subs: modules[f].scales}
	if !l.Hopper() {
		b.warps, b.ring, b.least, b.most = 8, 56<<10, 0, 98<<10
	}
	return b
}

// shared is a block's shared memory in bytes: a warp has units units of a tile, and jobs have up to each slots.
func (b gemvBlock) shared(each, units int) int {
	rings := b.warps * b.unit * max(3, b.ring*8/9/(b.warps*b.unit))
	return max(b.least, gemvJobBytes+rings+2*b.warps*32*8+b.warps*units*b.subs*each*(32*8+4*8))
}

// MaxGemvRows is the most rows that GroupedGemv computes: an expert should have few of them, and their jobs must fit. 0: it does not take these products, or not those of some of the experts.
func MaxGemvRows(l *kernels.Loader, o graph.MoE, gated, down Product) int {
	if !gated.Gated || o.Held > 0 || gated.Format == quant.BF16 || down.Format == quant.BF16 || o.Experts > gemvExperts || o.TopK > gemvTop || gated.K%8 != 0 || down.K%8 != 0 {
		return 0
	}
	for _, p := range []Product{gated, down} {
		k := gemvProduct{block: gemvBlockOf(l, p.Format), units: (p.K + columns - 1) / columns, sms: 1}
		if k.runs(gemvJobSlots, 1) == 0 {
			return 0
		}
	}
	rows := min(2*o.Experts/o.TopK, gemvRows)
	for Jobs(o, rows, gemvJobSlots) > gemvJobs {
		rows--
	}
	return rows
}

// NewGroupedGemv binds a block's products, of which the second has the first's results by slots. scores is of type t; count is as for NewRouter. It
// writes shares, [slots] float32.
func NewGroupedGemv(l *kernels.Loader, t graph.Type, scores driver.Ptr, gated, down Product, o graph.MoE, count int, share driver.Ptr) (*GroupedGemv, error) {
	k := &GroupedGemv{op: o}
	for i, p := range []Product{gated, down} {
		to := [...]*gemvProduct{&k.gated, &k.down}[i]
		*to = gemvProduct{block: gemvBlockOf(l, p.Format), tiles: tiles(p.N), units: (p.K + columns - 1) / columns, sms: l.SMs(), base: groupedGemvParams{
			X: p.X, Scores: scores, Share: share, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(),
			N: int32(p.N), K: int32(p.K), Count: int32(count), Experts: int32(o.Experts), Top: int32(o.TopK), OfAll: shares(o), Fn: int32(o.Fn), Clamp: float32(o.Clamp),
		}}
		if p.Gated {
			to.tiles = (p.N + tileRows/2 - 1) / (tileRows / 2)
		}
		if t == graph.F32 {
			to.base.F32Scores = 1
		}
		var err error
		if to.kernel, err = l.Kernel(modules[p.Format].name, [...]string{"gemv_gated", "gemv_down"}[i], to.block.most); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Launch computes the slots of up to so many rows, in order, and their shares.
func (k *GroupedGemv) Launch(s *driver.Stream, step *kernels.Step, rows int) error {
	if err := k.gated.launch(s, step, k.op, rows); err != nil {
		return err
	}
	return k.down.launch(s, step, k.op, rows)
}

func (k *gemvProduct) launch(s *driver.Stream, step *kernels.Step, o graph.MoE, rows int) error {
	p, each := k.base, gemvJobSlots
	if rows < gemvJobSlots-1 {
		each = rows // 1 or 2
	}
	runs := k.runs(each, float64(o.Experts)*o.Reached(int64(rows)))
	p.Counts, p.Rows, p.Each, p.RunsLog = step.Counts, int32(rows), int32(each), int32(bits.TrailingZeros(uint(runs)))
	p.OfTiles, p.OfGrid = inverse(k.tiles), inverse(k.sms)
	return driver.Launch(s, k.kernel, driver.Grid{X: k.sms, Threads: 32 * k.block.warps, Shared: k.block.shared(each, (k.units+runs-1)/runs)}, &p)
}

// inverse is the multiplier by which divided of grouped_gemv.h divides by d: 2³² / d, rounded up; 0 stands for d = 1.
func inverse(d int) uint32 { return uint32((1<<32 + int64(d) - 1) / int64(d)) }

// runs is the split-K of a tile, for so many jobs: the one with the least work for a warp. A tile's fixed cost counts as half a unit.
func (k *gemvProduct) runs(each int, jobs float64) int {
	best, least := 0, math.Inf(1)
	for runs := k.block.warps; runs >= 1; runs /= 2 {
		units := (k.units + runs - 1) / runs
		if runs > k.units || k.block.shared(each, units) > k.block.most {
			continue
		}
		tiles := math.Ceil(jobs * float64(k.tiles) / float64(k.sms)) // of a block
		if n := math.Ceil(tiles*float64(runs)/float64(k.block.warps)) * (float64(units) + 0.5); n < least {
			best, least = runs, n
		}
	}
	return best
}

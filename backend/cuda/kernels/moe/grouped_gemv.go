package moe

import (
	"math"
	"math/bits"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// What grouped_gemv.h has room for.
const (
	fewJobs    = 256
	fewExperts = 256
	fewTop     = 32
	fewRows    = 32
	fewEach    = 4 // slots of a job

	fewNoted = 32*fewJobs + 128 // bytes of a block's jobs
)

// fewParams mirrors FewExpertsParams of gemv_jobs.h.
type fewParams struct {
	X, Scores, Counts, Share, W, Bias, UpBias, Y driver.Ptr
	Stride                                       int64
	N, K, Rows, Count, RunsLog                   int32
	OfTiles, OfGrid                              uint32
	Experts, Top, OfAll, Wide, Fn                int32
	Clamp                                        float32
	Each                                         int32 // 1, 2 or 4
}

// Few is a block's products for few rows, in any format of whole numbers.
type Few struct {
	op          graph.MoE
	gated, down fewProduct
}

type fewProduct struct {
	base   fewParams
	block  fewBlock
	tiles  int // of an expert
	units  int // of a tile
	sms    int
	kernel *driver.Kernel
}

// fewBlock is a block of grouped_gemv.h; shared memory in bytes. Two must not fit on a multiprocessor, where two would come while others have none.
type fewBlock struct{ warps, ring, least, most, unit, subs int }

func fewBlockOf(l *kernels.Loader, f quant.Format) fewBlock {
	b := fewBlock{warps: 16, ring: 93 << 10, least: 116 << 10, most: 226 << 10, unit: int(Bytes(f, slabRows, 2*columns)) / (2 * slabTiles), subs: 1}
	if !l.Hopper() {
		b.warps, b.ring, b.least, b.most = 8, 56<<10, 0, 98<<10
	}
	if f == quant.Q6_K {
		b.subs = 2
	}
	return b
}

// shared is what a block takes where a warp has so many units of a tile, for jobs of up to so many slots.
func (b fewBlock) shared(each, units int) int {
	rings := b.warps * b.unit * max(3, b.ring*8/9/(b.warps*b.unit))
	return max(b.least, fewNoted+rings+2*b.warps*32*8+b.warps*units*b.subs*each*(32*8+4*8))
}

// FewRows is up to how many rows a block of experts is for Few: while an expert has few of them, and while there is room.
func FewRows(l *kernels.Loader, o graph.MoE, gated, down Product) int {
	if gated.Format == quant.BF16 || down.Format == quant.BF16 || o.Experts > fewExperts || o.TopK > fewTop || gated.K%8 != 0 || down.K%8 != 0 {
		return 0
	}
	for _, p := range []Product{gated, down} {
		k := fewProduct{block: fewBlockOf(l, p.Format), units: (p.K + columns - 1) / columns, sms: 1}
		if k.runs(fewEach, 1) == 0 {
			return 0
		}
	}
	rows := min(2*o.Experts/o.TopK, fewRows)
	for Jobs(o, rows, fewEach) > fewJobs {
		rows--
	}
	return rows
}

// NewFew binds a block's products, of which the second has the first's results by slots. scores is of type t; count is as for NewRouter. It
// writes shares, [slots] float32.
func NewFew(l *kernels.Loader, t graph.Type, scores driver.Ptr, gated, down Product, o graph.MoE, count int, share driver.Ptr) (*Few, error) {
	k := &Few{op: o}
	for i, p := range []Product{gated, down} {
		to := [...]*fewProduct{&k.gated, &k.down}[i]
		*to = fewProduct{block: fewBlockOf(l, p.Format), tiles: tiles(p.N), units: (p.K + columns - 1) / columns, sms: l.SMs(), base: fewParams{
			X: p.X, Scores: scores, Share: share, W: p.W, Bias: p.Bias, UpBias: p.UpBias, Y: p.Y, Stride: p.bytes(),
			N: int32(p.N), K: int32(p.K), Count: int32(count), Experts: int32(o.Experts), Top: int32(o.TopK), Fn: int32(o.Fn), Clamp: float32(o.Clamp),
		}}
		if p.Gated {
			to.tiles = (p.N + tileRows/2 - 1) / (tileRows / 2)
		}
		if o.NoRenorm {
			to.base.OfAll = 1
		}
		if t == graph.F32 {
			to.base.Wide = 1
		}
		var err error
		if to.kernel, err = l.Kernel(forms[p.Format], [...]string{"gemv_gated", "gemv_down"}[i], to.block.most); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Launch computes the slots of up to so many rows, in order, and their shares.
func (k *Few) Launch(s *driver.Stream, step *kernels.Step, rows int) error {
	if err := k.gated.launch(s, step, k.op, rows); err != nil {
		return err
	}
	return k.down.launch(s, step, k.op, rows)
}

func (k *fewProduct) launch(s *driver.Stream, step *kernels.Step, o graph.MoE, rows int) error {
	p, each := k.base, fewEach
	if rows < fewEach-1 {
		each = rows // 1 or 2
	}
	runs := k.runs(each, float64(o.Experts)*o.Reached(int64(rows)))
	p.Counts, p.Rows, p.Each, p.RunsLog = step.Counts, int32(rows), int32(each), int32(bits.TrailingZeros(uint(runs)))
	p.OfTiles, p.OfGrid = inverse(k.tiles), inverse(k.sms)
	return driver.Launch(s, k.kernel, driver.Grid{X: k.sms, Threads: 32 * k.block.warps, Shared: k.block.shared(each, (k.units+runs-1)/runs)}, &p)
}

// inverse is what divided of grouped_gemv.h divides by d with; 0 stands for 1.
func inverse(d int) uint32 { return uint32((1<<32 + int64(d) - 1) / int64(d)) }

// runs is in how many runs of columns a tile is best cut, where there are so many jobs: that with which a warp has least to do. What it has to
// do with a tile beside its units is as much as half a unit.
func (k *fewProduct) runs(each int, jobs float64) int {
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

package densesm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// AdapterB is the second matrices of adapters for a weight: in each of Slots, Stride bytes apart, [N, Ranks] bf16.
type AdapterB struct {
	At           driver.Ptr
	Stride       int
	Slots, Ranks int
}

// Hidden is where h = A x of a launch's rows lies, times the adapters' scales: [targets, or gate and up][passes of 16 ranks][Rows, 16] bf16.
type Hidden struct {
	At   driver.Ptr
	Rows int // WholeRows of those of a step, since tiles read whole
}

// MaxTargets is the most weights with adapters in a launch.
const MaxTargets = 3

// WholeRows is so many rows in whole tiles.
func WholeRows(rows int) int { return (rows + MaxRows - 1) / MaxRows * MaxRows }

// HiddenBytes is what Hidden takes for adapters of this rank.
func HiddenBytes(rows, rank int) int64 {
	return MaxTargets * int64(Passes(rank)) * int64(WholeRows(rows)) * 2 * unitRanks
}

// Passes is how many units of 16 ranks a rank has.
func Passes(rank int) int { return (rank + unitRanks - 1) / unitRanks }

const (
	unitRanks = 16
	unitBytes = 2 * unitRanks * tileRows // of B
)

// RunRows is the rows of a step in runs of one adapter each; rows without an adapter are of none, or within one.
type RunRows struct {
	Slots  driver.Ptr // [runs] int32: the slot of each
	Runs   driver.Ptr // [WholeRows] int32: the run of each row; -1: none
	Blocks driver.Ptr // [WholeRows / 8] × 2 int32: the run of the first row with an adapter that is in these eight or behind them, and how many runs have begun before their end
	Most   MostRuns
}

// MostRuns bounds the runs of any tile of 128 rows, or of fewer where there are no more, and of any tile of 256.
type MostRuns struct{ Of128, Of256 int }

// of is that of tiles of so many rows.
func (r *MostRuns) of(rows int) int {
	if rows > 128 {
		return r.Of256
	}
	return r.Of128
}

// adaptedParams mirrors AdaptedParams of adapted.cu.
type adaptedParams struct {
	params
	B                         [MaxTargets]driver.TensorMap
	H                         driver.Ptr
	Slots, Runs, Blocks       driver.Ptr
	First, Each, Passes, Rows int32
	_                         [16]byte // tensor maps lie at multiples of 64
}

// AdaptedKernel is a problem whose rows have adapters that are products: B h is added as further steps of the product.
type AdaptedKernel struct {
	kernel *Kernel
	b      [MaxTargets]driver.TensorMap
	hidden Hidden
	passes int
	sides  int // 2 of a gated problem: gate and up
}

// NewAdapted binds a problem whose weights have B. sums is as New has it.
func NewAdapted(l *kernels.Loader, p Problem, hidden Hidden, sums driver.Ptr) (*AdaptedKernel, error) {
	kernel, err := newKernel(l, p, sums, "gemm/dense_sm90/adapted", "adapted_")
	if err != nil {
		return nil, err
	}
	k := &AdaptedKernel{kernel: kernel, hidden: hidden, sides: 1, passes: Passes(p.Weights[0].B.Ranks)}
	bind := func(i, n int, b AdapterB, rows uint32) {
		if err == nil {
			k.b[i], err = l.Context().NarrowMap(b.At, []uint64{uint64(b.Ranks), uint64(n), uint64(b.Slots)}, []uint64{uint64(2 * b.Ranks), uint64(b.Stride)}, []uint32{unitRanks, rows, 1})
		}
	}
	for i, w := range p.Weights {
		if p.Gated {
			k.sides = 2
			bind(0, w.N, w.B, tileRows/2)
			bind(1, w.N, w.B2, tileRows/2)
		} else {
			bind(i, w.N, w.B, tileRows)
		}
	}
	return k, err
}

// units is how many of B a stage has beside h of a tile's rows, the run of each, and the runs of each eight: AdapterStage of adapter_steps.h.
func (k *AdaptedKernel) units(rows int) int {
	return ((tileRows+rows)*depth*2 - rows*(2*unitRanks*k.sides+5)) / unitBytes
}

// Launch computes the first m rows.
func (k *AdaptedKernel) Launch(s *driver.Stream, m int, runs *RunRows) error {
	each := func(rows int) int { return max(1, (runs.Most.of(rows)+k.units(rows)-1)/k.units(rows)) }
	w, base, grid := k.kernel.prepare(m, func(rows int) int { return k.passes * each(rows) })
	first, of := k.kernel.steps(), each(w.rows)
	p := adaptedParams{params: base.params, B: k.b, H: k.hidden.At, Slots: runs.Slots, Runs: runs.Runs, Blocks: runs.Blocks,
		First: int32(first), Each: int32(of), Passes: int32(k.passes), Rows: int32(k.hidden.Rows)}
	p.K = int32((first + k.passes*of) * depth)
	return driver.Launch(s, w.kernel, grid, &p)
}

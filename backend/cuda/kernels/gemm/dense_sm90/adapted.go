package densesm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Hidden is where h = A x of a launch's tiles lies, times the adapters' scales: [targets, or gate and up][passes of 16 ranks][Tiles][16 rows][16] bf16, 0 in rows that are
// not the tile's.
type Hidden struct {
	At     driver.Ptr
	Tiles  int // that it has room for
	Passes int
}

// Bytes is what it takes.
func (h Hidden) Bytes() int64 { return MaxTargets * int64(h.Passes) * int64(h.Tiles) * hiddenBytes }

const (
	windowRows  = 16
	hiddenBytes = windowRows * unitRow
	unitBytes   = tileRows * unitRow // of B
)

// RowTiles is the rows of a step that have adapters: up to 16 of one adapter, of 16 aligned ones, are a tile.
type RowTiles struct {
	Tiles   driver.Ptr // [n × 4] int32, of which the first is the adapter's slot; in order of their rows' windows of 16
	Windows driver.Ptr // [Windows(rows) + 1] int32: the first tile of each window
	Most    MostTiles
}

// Windows is how many windows the tiles of a product with so many rows have.
func Windows(rows int) int { return (rows + MaxRows - 1) / MaxRows * MaxRows / windowRows }

// MostTiles bounds the tiles of 128 aligned rows, and of 256.
type MostTiles struct{ Of128, Of256 int }

// of is that of so many rows of a product.
func (r MostTiles) of(rows int) int {
	if rows > 128 {
		return r.Of256
	}
	return r.Of128
}

// slotsB mirrors AdapterTiles::B.
type slotsB struct {
	at         driver.Ptr
	slot, pass int64
}

// adaptedParams mirrors AdaptedParams of adapted.cu.
type adaptedParams struct {
	params
	b              [MaxTargets]slotsB
	H              driver.Ptr
	Tiles, Windows driver.Ptr
	First, Each    int32
	Steps, Period  int32
	Passes, Room   int32
	_              [8]byte // tensor maps lie at multiples of 64
}

// AdaptedKernel is a problem whose rows have adapters that are products: B h of each row's own is added as further steps of the product.
type AdaptedKernel struct {
	kernel *Kernel
	b      [MaxTargets]slotsB
	hidden Hidden
	sides  int // 2 of a gated problem: gate and up
}

// NewAdapted binds a problem whose weights have B. sums is as New has it.
func NewAdapted(l *kernels.Loader, p Problem, hidden Hidden, sums driver.Ptr) (*AdaptedKernel, error) {
	kernel, err := newKernel(l, p, sums, "gemm/dense_sm90/adapted", "adapted_")
	k := &AdaptedKernel{kernel: kernel, hidden: hidden, sides: 1}
	bind := func(i, n int, b AdapterB) { k.b[i] = slotsB{b.At, int64(b.Passes * n * unitRow), int64(n * unitRow)} }
	for i, w := range p.Weights {
		if bind(i, w.N, w.B); p.Gated {
			k.sides = 2
			bind(1, w.N, w.B2)
		}
	}
	return k, err
}

// tiles is how many a stage has room for in a product of so many rows of x: AdapterStage of adapter_tiles.h.
func (k *AdaptedKernel) tiles(rows int) int {
	return (tileRows + rows) * depth * 2 / (unitBytes + k.sides*hiddenBytes)
}

// Launch computes the first m rows, of which adapters have so many passes at most.
func (k *AdaptedKernel) Launch(s *driver.Stream, m int, t *RowTiles, passes int) error {
	each := func(rows int) int { return max(1, (t.Most.of(rows)+k.tiles(rows)-1)/k.tiles(rows)) }
	w, base, grid := k.kernel.prepare(m, func(rows int) int { return passes * each(rows) })
	first, steps := k.kernel.steps(), passes*each(w.rows)
	p := adaptedParams{params: base.params, b: k.b, H: k.hidden.At, Tiles: t.Tiles, Windows: t.Windows, First: int32(first), Each: int32(each(w.rows)),
		Steps: int32(steps), Period: int32(first/steps + 1), Passes: int32(k.hidden.Passes), Room: int32(k.hidden.Tiles)}
	p.K = int32((first + steps) * depth)
	return driver.Launch(s, w.kernel, grid, &p)
}

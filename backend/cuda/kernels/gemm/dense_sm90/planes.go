package densesm90

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// AdapterB is the second matrices of adapters for a weight: [Slots][Passes][N][16] bf16, 16 ranks a pass.
type AdapterB struct {
	At            driver.Ptr
	Slots, Passes int
}

// Planes is where h = A x of a launch's rows lies, times the adapters' scales: [targets × steps, Rows, 64] bf16, in units of 16 ranks: a plane for each adapter that
// rows have and in it a pass for each 16 of its ranks, 0 where a row has another adapter. Gate and up are one target, whose units are of either by turns.
type Planes struct {
	At   driver.Ptr
	Rows int
}

// What there is of weights with adapters in a launch, and of planes times passes, at most.
const (
	MaxTargets = 3
	MaxUnits   = 32
)

// Bytes is what planes of so many rows take, Used what launches of so many planes times passes may read of it.
func (p Planes) Bytes() int64 { return p.Used(MaxUnits) }
func (p Planes) Used(units int) int64 {
	return MaxTargets * stepBytes * int64((units+stepUnits-1)/stepUnits) * int64(p.Rows)
}

const (
	unitRanks = 16
	unitRow   = 2 * unitRanks     // bytes
	stepUnits = depth / unitRanks // in a step
	stepBytes = 2 * depth         // of a row
)

// planesParams mirrors PlanesParams of planes.cu.
type planesParams struct {
	params
	H                    driver.TensorMap
	B                    [3]driver.TensorMap
	Slots                driver.Ptr
	First, Steps         int32
	Planes, Passes, Rows int32
	OfSlot               int32    // passes of a slot
	_                    [32]byte // tensor maps lie at multiples of 64
}

// PlanesKernel is a problem whose rows have adapters that are products: B h is added as further steps of the product.
type PlanesKernel struct {
	kernel *Kernel
	b      [3]driver.TensorMap
	ofSlot int // passes
	rows   int
	sides  int // 2 of a gated problem, whose units are those of gate and up
}

// NewPlanes binds a problem whose weights have B. sums is as New has it.
func NewPlanes(l *kernels.Loader, p Problem, planes Planes, sums driver.Ptr) (*PlanesKernel, error) {
	kernel, err := newKernel(l, p, sums, "gemm/dense_sm90/planes", "planes_")
	if err != nil {
		return nil, err
	}
	k := &PlanesKernel{kernel: kernel, rows: planes.Rows, sides: 1, ofSlot: p.Weights[0].B.Passes}
	for i, w := range p.Weights {
		if p.Gated {
			k.sides = 2
			if k.b[0], err = interleavedB(l, w.B, w.N); err == nil {
				k.b[1], err = interleavedB(l, w.B2, w.N)
			}
		} else {
			k.b[i], err = l.Context().NarrowMap(w.B.At, []uint64{unitRanks, uint64(w.N), uint64(w.B.Slots * w.B.Passes)}, []uint64{unitRow, unitRow * uint64(w.N)}, []uint32{unitRanks, tileRows, 1})
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range kernel.widths {
		w := &kernel.widths[i]
		if w.h, err = l.Context().MatrixMap(planes.At, int(planes.Bytes()/stepBytes), depth, stepBytes, w.rows/w.cluster, depth); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// interleavedB is B for a tile of interleaved rows, eight of it and eight zeros: those lie outside the tensor, along a dimension of one.
func interleavedB(l *kernels.Loader, b AdapterB, n int) (driver.TensorMap, error) {
	return l.Context().NarrowMap(b.At, []uint64{unitRanks, 8, 1, uint64(n / 8), uint64(b.Slots * b.Passes)}, []uint64{unitRow, 8 * unitRow, 8 * unitRow, unitRow * uint64(n)}, []uint32{unitRanks, 8, 2, tileRows / 16, 1})
}

// Steps is how many steps so many planes and passes take.
func (k *PlanesKernel) Steps(planes, passes int) int {
	return (k.sides*planes*passes + stepUnits - 1) / stepUnits
}

// Pays reports whether so many planes and passes are few enough: each step is computed for all rows, whosever adapter it is, and of more than fill a step each
// row's own are computed sooner (AdaptedKernel).
func (k *PlanesKernel) Pays(planes, passes int) bool {
	more := k.Steps(planes, passes)
	return planes*passes <= stepUnits && (more == 1 || 8*more <= k.kernel.steps())
}

// Launch computes the first m rows. slots is whose adapter each plane is of, int32; -1: no row's.
func (k *PlanesKernel) Launch(s *driver.Stream, m int, slots driver.Ptr, planes, passes int) error {
	more := k.Steps(planes, passes)
	w, base, grid := k.kernel.prepare(m, func(int) int { return more })
	p := planesParams{params: base.params, H: w.h, B: k.b, Slots: slots, First: int32(k.kernel.steps()), Steps: int32(more), Planes: int32(planes), Passes: int32(passes), Rows: int32(k.rows), OfSlot: int32(k.ofSlot)}
	p.K = int32((k.kernel.steps() + more) * depth)
	return driver.Launch(s, w.kernel, grid, &p)
}

// Package densesm90 is dense GEMM on Hopper: Y = X × Wᵀ by wgmma and TMA in a persistent, warp-specialised kernel with stream-K, in bf16 or in 8 bits
// with a scale a row, for any number of rows; up to four weights that read the same rows in one launch (fused QKV), or gate and up with the
// activation as the epilogue (SwiGLU, GeGLU).
package densesm90

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// part mirrors Part of gemm.h.
type part struct {
	Bias, Bias2, Scale, Scale2, Y driver.Ptr
	N, Tiles                      int32
}

// params mirrors GemmParams of gemm.h.
type params struct {
	W                            [4]driver.TensorMap
	X                            driver.TensorMap
	Part                         [4]part
	Sums, XScale                 driver.Ptr
	M, K, Parts, Fn              int32
	RowTiles, Tiles, StreamTiles int32
	SwitchCost                   int32
	_                            [16]byte // tensor maps lie at multiples of 64
}

// deltaParams mirrors DeltaParams of delta.cu.
type deltaParams struct {
	params
	Delta      [3]driver.Ptr
	Up, Places driver.Ptr
	_          [24]byte // tensor maps lie at multiples of 64
}

// Weight is a matrix of N × K numbers, row-major, with where its results go.
type Weight struct {
	W      driver.Ptr
	W2     driver.Ptr // of a sparse gated problem: the up matrix
	Bias   driver.Ptr // [N] float32, or 0
	Bias2  driver.Ptr // of a gated problem: the up matrix's
	Scale  driver.Ptr // [N] float32, what a number of each row counts; not of bf16
	Scale2 driver.Ptr // of a gated problem: the up matrix's
	Y      driver.Ptr // [rows, N] bf16
	N      int

	Delta, Delta2 driver.Ptr // of a problem with deltas: [rows, N] bf16 that is added to the results; Delta2 to a gated problem's up
	B, B2         AdapterB   // of NewPlanes; B2 of a gated problem's up
}

// Problem is what one launch computes.
type Problem struct {
	Type    graph.Type // of the numbers of X and of weights: BF16, F8 or I8
	X       driver.Ptr // [Rows, K]
	XScale  driver.Ptr // [Rows, rounded up to an even number] float32, what a number of each row counts; not of BF16. They are read by twos
	Rows    int        // that X has room for; launches use the first m
	K       int
	Weights []Weight // 1 to 4; of a problem with deltas or planes to 3
	Gated   bool     // the one weight is gate and up as Interleave makes them, 2N rows, and Y = fn(gate) × up
	Fn      int32    // a gated problem's graph.Fn: silu or gelu_tanh
	Deltas  bool     // adapters add to the results; see LaunchDeltas
}

// shape is a tile width.
type shape struct {
	rows   int     // of x
	stages int     // that fit in shared memory
	step   float64 // what a step takes, in the time of one of 128 rows (0.37 µs on an H200)
	fixup  float64 // what the stream-K fix-up of a tile costs, in the same
}

var widths = []shape{{16, 11, 1, 4}, {32, 9, 1, 4}, {64, 8, 1, 4}, {128, 6, 1, 13}, {256, 4, 1.8, 22}}

// leastPaired is the narrowest tile for clusters of two blocks with TMA multicast, if the weights' tiles pair and rows are more.
const leastPaired = 128

// MaxRows is the widest tile's: PartialBytes does not grow beyond it.
const MaxRows = 256

const (
	tileRows  = 128             // of weights in a tile
	depth     = 64              // of k in a step, in pairs of bytes
	consumers = 256             // threads that multiply: two warpgroups
	threads   = 128 + consumers // the producer warpgroup, and those
	lineBytes = 144             // of a token's 64 columns of Y in shared memory, and 16 so that neighbours start on other banks
	// of a token's 32 columns of gate and of up, where adapters add to them
	gatedLineBytes = 2 * (64 + 16)
)

// Kernel is a problem bound to its kernels, one for each tile width that its rows may need.
type Kernel struct {
	sms    int
	alone  bool // no other process (MPS) holds multiprocessors while this one runs, so blocks may wait for each other
	widths []width
	base   deltaParams
}

type width struct {
	shape
	cluster int // blocks of a cluster, which share tiles of x by TMA multicast
	shared  int
	kernel  *driver.Kernel
	x       driver.TensorMap
	h       driver.TensorMap // of a PlanesKernel: see Planes
}

// PartialBytes is the scratch for stream-K partial sums of launches for up to rows rows on a GPU with so many multiprocessors: two tiles each.
func PartialBytes(sms, rows int) int64 {
	for _, w := range widths {
		if rows <= w.rows || w.rows == MaxRows {
			return int64(sms) * 2 * int64(w.rows) / 2 * consumers * 4
		}
	}
	return 0
}

// Fits reports whether TMA can load these matrices and results can be written: rows must be multiples of 16 bytes.
func Fits(t graph.Type, n, k int) bool { return t.RowBytes(k)%16 == 0 && n%8 == 0 }

// New binds a problem. sums is PartialBytes full of 0xff, which they are again after each launch.
func New(l *kernels.Loader, p Problem, sums driver.Ptr) (*Kernel, error) {
	if p.Deltas {
		return newKernel(l, p, sums, "gemm/dense_sm90/delta", "delta_")
	}
	return newKernel(l, p, sums, kernels.Module("gemm/dense_sm90/gemm", p.Type), "")
}

func newKernel(l *kernels.Loader, p Problem, sums driver.Ptr, module, prefix string) (*Kernel, error) {
	pairs := kernels.Pairs(p.Type, p.K)
	k := &Kernel{sms: l.SMs(), alone: !l.Context().MPS, base: deltaParams{params: params{
		K: int32(pairs), XScale: p.XScale, Parts: int32(len(p.Weights)), Fn: p.Fn, Sums: sums,
	}}}
	name, each := prefix+"gemm", 1 // each: rows of weights for a column of Y
	if p.Gated {
		name, each = prefix+"gated", 2
	}
	var err error
	for i, w := range p.Weights {
		if k.base.W[i], err = l.Context().MatrixMap(w.W, each*w.N, pairs, 2*pairs, tileRows, depth); err != nil {
			return nil, err
		}
		tiles := int32((each*w.N + tileRows - 1) / tileRows)
		k.base.Part[i] = part{Bias: w.Bias, Bias2: w.Bias2, Scale: w.Scale, Scale2: w.Scale2, Y: w.Y, N: int32(w.N), Tiles: tiles}
		k.base.Tiles += tiles
		if p.Deltas {
			k.base.Delta[i] = w.Delta
		}
		if w.Delta2 != 0 {
			k.base.Up = w.Delta2
		}
	}
	paired := k.paired()
	for _, w := range widths {
		if w.rows <= leastPaired || !paired {
			err = k.bind(l, p, module, name, w, 1)
		}
		if err == nil && paired && w.rows >= leastPaired && p.Rows > leastPaired {
			err = k.bind(l, p, module, name+"_cluster", w, 2)
		}
		if err != nil {
			return nil, err
		}
		if w.rows >= p.Rows {
			break
		}
	}
	return k, nil
}

// bind adds the kernel for a width in clusters of so many blocks.
func (k *Kernel) bind(l *kernels.Loader, p Problem, module, name string, w shape, cluster int) (err error) {
	b := width{shape: w, cluster: cluster}
	chunk := max(8, w.rows/4) // tokens of a chunk of the epilogue
	line := lineBytes
	if p.Deltas && p.Gated {
		line = gatedLineBytes
	}
	b.shared = 1024 + w.stages*(tileRows+w.rows)*depth*2 + 2*chunk*line
	if b.kernel, err = l.Kernel(module, fmt.Sprint(name, w.rows), b.shared); err != nil {
		return err
	}
	pairs := int(k.base.K)
	b.x, err = l.Context().MatrixMap(p.X, p.Rows, pairs, 2*pairs, w.rows/cluster, depth)
	k.widths = append(k.widths, b)
	return err
}

// paired reports whether clusters of two blocks take pairs of tiles of weights. The last pair of a weight of an odd number has only one that is there, and few
// may be so.
func (k *Kernel) paired() bool {
	odd := int32(0)
	for _, p := range k.base.Part[:k.base.Parts] {
		odd += p.Tiles % 2
	}
	return 32*odd <= k.base.Tiles
}

// Launch computes the first m rows.
func (k *Kernel) Launch(s *driver.Stream, m int) error {
	w, p, grid := k.prepare(m, nil)
	return driver.Launch(s, w.kernel, grid, &p.params)
}

// LaunchDeltas computes the first m rows of a problem with deltas, which are added to the rows whose places, int32, are not negative.
func (k *Kernel) LaunchDeltas(s *driver.Stream, m int, places driver.Ptr) error {
	w, p, grid := k.prepare(m, nil)
	p.Places = places
	return driver.Launch(s, w.kernel, grid, &p)
}

// prepare gives the kernel and its parameters for m rows and so many steps behind those of k in tiles of so many rows; nil: none.
func (k *Kernel) prepare(m int, more func(rows int) int) (*width, deltaParams, driver.Grid) {
	w, d := k.choose(m, func(rows int) int {
		if more == nil {
			return k.steps()
		}
		return k.steps() + more(rows)
	})
	p := k.base
	p.X, p.M = w.x, int32(m)
	p.RowTiles, p.Tiles = w.tiles(&p.params, m)
	p.StreamTiles, p.SwitchCost = d.streamTiles, d.switchCost
	return w, p, driver.Grid{X: d.clusters * w.cluster, Threads: threads, Shared: w.shared, Cluster: w.cluster}
}

// steps is how many there are of k.
func (k *Kernel) steps() int { return (int(k.base.K) + depth - 1) / depth }

// choose finds the width for m rows and the schedule of its tiles, of so many steps where they have so many rows: the narrowest that takes them, or the faster of
// the two widest.
func (k *Kernel) choose(m int, steps func(rows int) int) (w *width, d schedule) {
	for i := range k.widths {
		c := &k.widths[i]
		if m > c.rows && c.cluster == 1 && i+1 < len(k.widths) {
			continue
		}
		fixup := c.fixup
		if c.cluster == 1 && m <= leastPaired {
			fixup = 4 // hidden in part: weights take longer to come than to be multiplied
		}
		if !k.alone {
			fixup = math.Inf(1)
		}
		_, tiles := c.tiles(&k.base.params, m)
		if e := newSchedule(k.sms/c.cluster, tiles, int32(steps(c.rows)), c.step, fixup); w == nil || e.cost < d.cost {
			w, d = c, e
		}
		if m <= c.rows {
			break
		}
	}
	return w, d
}

// tiles is how many tiles there are for m rows: along the rows, and in all; with clusters, of a cluster's weights.
func (w *width) tiles(p *params, m int) (rows, all int32) {
	rows = int32((m + w.rows - 1) / w.rows)
	for _, part := range p.Part[:p.Parts] {
		all += (part.Tiles + int32(w.cluster) - 1) / int32(w.cluster) * rows
	}
	return rows, all
}

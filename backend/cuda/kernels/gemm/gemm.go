// Package gemm is the linear layer on Hopper's tensor cores: Y = X × Wᵀ in bf16, or in numbers of eight bits with a scale a row, for
// any number of rows, up to three weights that read the same rows in one launch, or the two of a gate with its function.
package gemm

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// part mirrors Part of gemm.h.
type part struct {
	Bias, Bias2, Scale, Scale2, Y, Add driver.Ptr
	N, Tiles                           int32
}

// params mirrors GemmParams of gemm.h.
type params struct {
	W                       [3]driver.TensorMap
	X                       driver.TensorMap
	Part                    [3]part
	Partial, Arrived        driver.Ptr
	XScale                  driver.Ptr
	M, K, Parts, Fn         int32
	RowTiles, Tiles, Stream int32
	_                       int32
	_                       [4]uint64 // the struct's size is a multiple of its maps' alignment, 64
}

// Weight is a matrix of N × K numbers, row-major, with where its results go.
type Weight struct {
	W      driver.Ptr
	Bias   driver.Ptr // [N] float32, or 0
	Bias2  driver.Ptr // of a gated problem: the up matrix's
	Scale  driver.Ptr // [N] float32, what a number of each row counts; not of bf16
	Scale2 driver.Ptr // of a gated problem: the up matrix's
	Y      driver.Ptr // [rows, N] bf16
	Add    driver.Ptr // [rows, N] bf16 that is added to the result, or 0
	N      int
}

// Problem is what one launch computes.
type Problem struct {
	Type    graph.Type // of the numbers of X and of weights: BF16, F8 or I8
	X       driver.Ptr // [Rows, K]
	XScale  driver.Ptr // [Rows] float32, what a number of each row counts; not of BF16
	Rows    int        // that X has room for; launches use the first m
	K       int
	Weights []Weight // 1 to 3
	Gated   bool     // the one weight is gate and up as Weave makes them, 2N rows, and Y = fn(gate) × up
	Fn      int32    // a gated problem's graph.Fn: silu or gelu_tanh
}

// widths are the tile widths in rows of x, the stages of each that fit in shared memory, and the part of the time that teams must be
// busy, or the last round goes as a stream. (Of several tiles of x, those of a stream read their weights from memory more than once.)
var widths = []struct {
	rows, stages int
	busy         float64
}{{8, 11, 0.95}, {16, 11, 0.95}, {32, 9, 0.95}, {64, 8, 0.95}, {128, 6, 0.95}, {256, 4, 0.65}}

// leastScaled is the narrowest tile of numbers of eight bits: fewer rows are skinny's.
const leastScaled = 16

// MaxRows is the widest tile's: PartialBytes does not grow beyond it.
const MaxRows = 256

const (
	tileRows  = 128 // of weights in a tile
	depth     = 64  // of k in a step, in pairs of bytes
	workers   = 256 // threads that multiply
	threads   = 128 + workers
	lineBytes = 144
)

// Kernel is a problem bound to its kernels, one for each tile width that its rows may need.
type Kernel struct {
	sms    int
	widths []width
	base   params
	pair   *driver.Kernel // the widest, in clusters of two blocks; nil when the weights' tiles do not pair
	half   driver.TensorMap
}

type width struct {
	rows   int
	busy   float64
	shared int
	kernel *driver.Kernel
	x      driver.TensorMap
}

// PartialBytes is the scratch that launches for up to rows rows need on a GPU with so many multiprocessors.
func PartialBytes(sms, rows int) int64 {
	for _, w := range widths {
		if rows <= w.rows || w.rows == MaxRows {
			return int64(sms) * 2 * int64(w.rows) / 2 * workers * 4
		}
	}
	return 0
}

// MaxTiles is how many zeroed int32 counters launches may use.
const MaxTiles = 1 << 15

// Fits reports whether the copy engine can fetch these matrices and results can be written: rows must be multiples of 16 bytes.
func Fits(t graph.Type, n, k int) bool { return t.RowBytes(k)%16 == 0 && n%8 == 0 }

// New binds a problem. partial has PartialBytes, arrived MaxTiles zeros that stay zero between launches.
func New(l *kernels.Loader, p Problem, partial, arrived driver.Ptr) (*Kernel, error) {
	pairs, folder := kernels.Pairs(p.Type, p.K), kernels.Folder("gemm", p.Type)
	k := &Kernel{sms: l.SMs(), base: params{K: int32(pairs), XScale: p.XScale, Parts: int32(len(p.Weights)), Fn: p.Fn, Partial: partial, Arrived: arrived}}
	name, each := "gemm", 1 // each: rows of weights for a column of Y
	if p.Gated {
		name, each = "gated", 2
	}
	var err error
	for i, w := range p.Weights {
		if k.base.W[i], err = l.Context().MatrixMap(w.W, each*w.N, pairs, 2*pairs, tileRows, depth); err != nil {
			return nil, err
		}
		tiles := int32((each*w.N + tileRows - 1) / tileRows)
		k.base.Part[i] = part{Bias: w.Bias, Bias2: w.Bias2, Scale: w.Scale, Scale2: w.Scale2, Y: w.Y, Add: w.Add, N: int32(w.N), Tiles: tiles}
		k.base.Tiles += tiles
	}
	for _, w := range widths {
		if w.rows < leastScaled && p.Type != graph.BF16 {
			continue
		}
		b := width{rows: w.rows, busy: w.busy}
		chunk := min(w.rows, 64) // tokens of a turn of the epilogue
		b.shared = 1024 + w.stages*(tileRows+w.rows)*depth*2 + 2*chunk*lineBytes
		if b.kernel, err = l.Kernel(folder, fmt.Sprint(name, w.rows), b.shared); err != nil {
			return nil, err
		}
		if b.x, err = l.Context().MatrixMap(p.X, p.Rows, pairs, 2*pairs, w.rows, depth); err != nil {
			return nil, err
		}
		k.widths = append(k.widths, b)
		if w.rows >= p.Rows {
			break
		}
	}
	return k, k.bindPair(l, p, folder, name)
}

// bindPair finds the kernel whose clusters share tiles of x, if rows may be that many and each weight has an even number of tiles.
func (k *Kernel) bindPair(l *kernels.Loader, p Problem, folder, name string) error {
	widest := k.widths[len(k.widths)-1]
	for _, part := range k.base.Part[:k.base.Parts] {
		if part.Tiles%2 != 0 || widest.rows != MaxRows {
			return nil
		}
	}
	var err error
	pairs := int(k.base.K)
	if k.half, err = l.Context().MatrixMap(p.X, p.Rows, pairs, 2*pairs, MaxRows/2, depth); err != nil {
		return err
	}
	k.pair, err = l.Kernel(folder, name+"256_pair", widest.shared)
	return err
}

// Launch computes the first m rows.
func (k *Kernel) Launch(s *driver.Stream, m int) error {
	w := &k.widths[len(k.widths)-1]
	for i := range k.widths {
		if m <= k.widths[i].rows {
			w = &k.widths[i]
			break
		}
	}
	p, kernel, cluster := k.base, w.kernel, 1
	p.X, p.M = w.x, int32(m)
	p.RowTiles = int32((m + w.rows - 1) / w.rows)
	p.Tiles *= p.RowTiles
	if w.rows == MaxRows && k.pair != nil {
		kernel, cluster, p.X = k.pair, 2, k.half
		p.Tiles /= 2
	}
	var teams int
	teams, p.Stream = share(k.sms/cluster, p.Tiles, (p.K+depth-1)/depth, w.busy)
	return driver.Launch(s, kernel, driver.Grid{X: teams * cluster, Threads: threads, Shared: w.shared, Cluster: cluster}, &p)
}

// share deals tiles of so many steps out to at most `most` teams of blocks: how many teams, and how many of the tiles go as a stream.
// Those are the tiles of a last round that would leave teams idle for too much of the time; busy is how much of it is enough.
func share(most int, tiles, steps int32, busy float64) (teams int, stream int32) {
	n := int32(most)
	rounds, rest := (tiles+n-1)/n, tiles%n
	if float64(tiles) >= busy*float64(rounds*n) || tiles > n && rest*steps < n {
		return int(min(n, tiles)), 0
	}
	if rest < n/8 || busy > 0.9 { // many pieces of few tiles would take longer than few of many
		rest = tiles
	}
	return int(min(n, tiles*steps)), rest
}

// weaveParams mirrors WeaveParams of gemm.cu.
type weaveParams struct {
	Gate, Up, Y   driver.Ptr
	Rows, Vectors int32
}

// Weave lays two matrices of rows × k pairs of bytes into one of 2 × rows: eight rows of the gate, then the same eight of the up
// matrix, so that both numbers of a result meet in one thread. rows divides by 8, and k as well.
func Weave(l *kernels.Loader, s *driver.Stream, gate, up, to driver.Ptr, rows, k int) error {
	kernel, err := l.Kernel("gemm", "weave", 0)
	if err != nil {
		return err
	}
	return driver.Launch(s, kernel, driver.Grid{X: rows, Threads: 256}, &weaveParams{Gate: gate, Up: up, Y: to, Rows: int32(rows), Vectors: int32(k / 8)})
}

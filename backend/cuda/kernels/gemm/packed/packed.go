// Package packed is GEMM and GEMV on packed weights (mixed-input, weight-only quantisation): weights stay quantised on the GPU in a tile-interleaved,
// pre-packed layout that serves GEMV, wgmma and dequantisation alike. For up to some 256 rows, or 1,024 of 4-bit formats, they are dequantised in
// registers; for more they are dequantised to bf16 in memory first (Dequantise) and go to densesm90.
package packed

import (
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Part is one weight and where its results go.
type Part struct {
	W    driver.Ptr // N × K, as Pack lays it out
	Bias driver.Ptr // [N] float32, or 0
	Y    driver.Ptr // [rows, N] bf16
	N    int
}

// Problem is what one launch computes.
type Problem struct {
	X     driver.Ptr // [Rows, K] bf16
	Rows  int        // that X has room for; launches use the first m
	K     int
	Parts []Part // 1 to 3
	Gated bool   // the parts are a gate and the up matrix, of which the first's Y = fn(gate) × up
	Fn    int32  // a gated problem's graph.Fn: silu or gelu_tanh

	// RMSNorm as the prologue and the residual as the epilogue, of NewFused.
	Norm     driver.Ptr // [K] float32, the weights that rows of X are normalised with (RMSNorm) before they are multiplied; or 0
	Eps      float32    // of that
	Residual driver.Ptr // [Rows, N] bf16, added to the Y of the only part; or 0
}

// Scratch is device memory that the launches of all problems share.
type Scratch struct {
	Partial    driver.Ptr // densesm90.PartialBytes, whatever they hold
	SplitKSums driver.Ptr // as many, full of 0xff between launches
	Arrived    driver.Ptr // MaxTiles int32, zeros between launches
	Squares    driver.Ptr // SquaresBytes, from a launch with a norm epilogue to those with its prologue
}

// Kernel is a problem bound to its kernels: gemv for up to 4 rows, gemm for more; where that does not fit, gemv for all, 8 at a time, but on older
// GPUs gemmSM80 for more than 8.
type Kernel struct {
	base     gemvParams
	gemv     []gemvKernel // for more and more rows
	threads  int          // of a block of those
	sms      int
	few      int // rows up to which they are faster than gemm
	gemm     *gemmSM90
	gemmSM80 *gemmSM80
}

// gemvKernel is a kernel of gemv_int8.h or gemv_bf16.h for up to so many rows.
type gemvKernel struct {
	name   string
	kernel *driver.Kernel
	rows   int
	blocks int // that have a tile together: 2 are a split-K cluster of gemv_int8.h
	room   int // the shared memory of a block, in bytes
}

// MaxParts is how many weights a launch takes.
const MaxParts = 3

// part mirrors PackedPart of formats.h. Tiles is, in gemvParams, how many of 16 rows the parts before it have; in gemmParams, how many of gemmTile it has.
type part struct {
	W, Bias, Y driver.Ptr
	N, Tiles   int32
}

// gemvParams mirrors GemvParams of gemv.h.
type gemvParams struct {
	X               driver.Ptr
	Part            [MaxParts]part
	M, K, Parts, Fn int32

	Matrices, Tiles, Each, Units int32

	Eps            float32
	_              int32
	Norm, Residual driver.Ptr
}

// gemvRows is how many rows of x a launch of a GEMV takes; for more than int8Rows, gemm is faster.
const (
	gemvRows = 8
	int8Rows = 4
)

// New binds a problem to the kernels for a format that Has.
func New(l *kernels.Loader, f quant.Format, p Problem, s Scratch) (*Kernel, error) {
	lt := layouts[f]
	k := &Kernel{base: newGemvParams(p), sms: l.SMs(), few: int8Rows}
	if lt.sparse { // there is no GEMV in integers, and gemm leaves room for the next launch's blocks
		k.few = 0
	}
	var err error
	switch {
	case !l.Hopper() && len(p.Parts) == 1: // as all are there: only Hopper fuses several
		k.gemmSM80, err = newGemmSM80(l, lt)
	case l.Hopper() && fits(p):
		k.gemm, err = newGemmSM90(l, lt, p, s)
	}
	if err != nil {
		return nil, err
	}
	return k, k.findGemv(l, lt)
}

func newGemvParams(p Problem) gemvParams {
	b := gemvParams{X: p.X, K: int32(p.K), Parts: int32(len(p.Parts)), Fn: p.Fn, Matrices: 1, Units: int32(tileUnits(p.K)), Eps: p.Eps, Norm: p.Norm, Residual: p.Residual}
	for i, w := range p.Parts {
		b.Part[i] = part{W: w.W, Bias: w.Bias, Y: w.Y, N: int32(w.N), Tiles: b.Tiles}
		b.Tiles += int32(tiles(w.N))
	}
	for i := len(p.Parts); i < len(b.Part); i++ {
		b.Part[i].Tiles = math.MaxInt32 // so that no tile is of it
	}
	if p.Gated {
		b.Matrices = 2
	}
	return b
}

func fits(p Problem) bool {
	for _, w := range p.Parts {
		if !densesm90.Fits(graph.BF16, w.N, p.K) || p.K%64 != 0 {
			return false
		}
	}
	return true
}

// Launch computes the first m rows.
func (k *Kernel) Launch(s *driver.Stream, m int) error {
	p := k.base
	for m > 0 {
		n := min(m, gemvRows)
		switch {
		case m > k.few && k.gemm != nil:
			return k.gemm.launch(s, m)
		case m > gemvRows && k.gemmSM80 != nil:
			n = min(m, gemmSM80Rows)
			if err := k.gemmSM80.launch(s, &p, n); err != nil {
				return err
			}
		default:
			if err := k.launch(s, p, n); err != nil {
				return err
			}
		}
		m -= n
		p.X += driver.Ptr(2 * n * int(p.K))
		for i := range p.Parts {
			p.Part[i].Y += driver.Ptr(2 * n * int(p.Part[i].N))
		}
	}
	return nil
}

// findGemv gets the kernels for up to 8 rows. Those of gemv_int8.h keep all of x in shared memory, where it may find no room; the one for 8 is only
// assembled, which takes the driver its time, where the others leave something to it.
func (k *Kernel) findGemv(l *kernels.Loader, lt layout) error {
	b := blockOf(l, lt)
	if err := k.findInt8(l, lt, b, ""); err != nil || k.gemm != nil && len(k.gemv) == len(int8Names) || k.gemm != nil && k.few == 0 {
		return err
	}
	eight, err := l.Kernel(lt.module, "gemv8", b.most)
	k.gemv = append(k.gemv, gemvKernel{name: "gemv8", kernel: eight, rows: gemvRows, blocks: 1, room: b.eight})
	return err
}

// findInt8 gets the kernels of gemv_int8.h that there are and that find room, with what their names end in.
func (k *Kernel) findInt8(l *kernels.Loader, lt layout, b block, end string) error {
	k.threads = 32 * b.warps
	if lt.floats {
		return nil
	}
	for i, name := range int8Names {
		v := gemvKernel{name: name + end, rows: 1 << i, blocks: 1}
		if l.Hopper() && k.pairs(v.rows) {
			v.name, v.blocks = name+"_split_k", 2
		}
		v.room = b.int8Room(lt, v.rows, v.blocks, int(k.base.Units))
		if v.room > b.most {
			break
		}
		var err error
		if v.kernel, err = l.Kernel(lt.module, v.name, b.most); err != nil { // launches of the same kernel differ in their room
			return err
		}
		k.gemv = append(k.gemv, v)
	}
	return nil
}

// pairs reports whether a launch for so many rows goes to split-K clusters of two blocks: one whose rows' digits take long to make, and whose tiles
// are one round.
func (k *Kernel) pairs(rows int) bool {
	return k.base.Norm == 0 && k.base.Matrices == 1 && int(k.base.Tiles) <= k.sms/2*2*roundTiles(rows)
}

// roundTiles is how many tiles a block of gemv_int8.h reduces at a time.
func roundTiles(rows int) int { return 8 / rows }

// int8Names are the kernels of gemv_int8.h, for 1, 2 and 4 rows.
var int8Names = [...]string{"gemv1", "gemv2", "gemv4"}

// FusedRows is the most rows of k numbers each that NewFused takes.
func FusedRows(l *kernels.Loader, f quant.Format, k int) (rows int) {
	lt := layouts[f]
	b := blockOf(l, lt)
	if lt.floats {
		return 0
	}
	for i := range int8Names {
		if b.int8Room(lt, 1<<i, 1, tileUnits(k)) > b.most {
			break
		}
		rows = 1 << i
	}
	return rows
}

// NewFused is New for a problem with Norm or Residual, for up to FusedRows rows.
func NewFused(l *kernels.Loader, f quant.Format, p Problem) (*Kernel, error) {
	lt := layouts[f]
	k, end := &Kernel{base: newGemvParams(p), sms: l.SMs()}, ""
	if p.Norm != 0 {
		end = "_norm"
	}
	return k, k.findInt8(l, lt, blockOf(l, lt), end)
}

// block is the configuration of a block of the GEMVs, as gemv.h, gemv_int8.h and kernels.h have it; shared memory in bytes. Blocks take the least at
// least, so that no two fit on a multiprocessor: where two fit two come, and other multiprocessors have none.
type block struct{ warps, ring, eight, least, most int }

func blockOf(l *kernels.Loader, lt layout) block {
	switch {
	case !l.Hopper():
		return block{warps: 8, ring: 56 << 10, eight: 98 << 10, most: 98 << 10}
	case lt.bytes > 640:
		return block{warps: 16, ring: 93 << 10, eight: 195 << 10, least: 116 << 10, most: 226 << 10}
	}
	return block{warps: 16, ring: 93 << 10, eight: 163 << 10, least: 116 << 10, most: 226 << 10}
}

// int8Room is the shared memory of a block of gemv_int8.h, of so many that have a tile together.
func (b block) int8Room(lt layout, rows, blocks, units int) int {
	unit, ring, runs := 2*lt.bytes, b.ring, b.warps/blocks
	if rows == 4 {
		ring = ring * 8 / 9
	}
	rings := b.warps * unit * max(3, ring/(b.warps*unit))
	sums := (roundTiles(rows)*b.warps*(16*rows+1)*4 + 15) / 16 * 16
	return max(b.least, rings+2*sums+runs*((units+b.warps-1)/b.warps)*(lt.subs*rows)*(32*8+4*8))
}

// launch computes up to gemvRows rows, with a block for each multiprocessor.
func (k *Kernel) launch(s *driver.Stream, p gemvParams, m int) error {
	at := 0
	for k.gemv[at].rows < m {
		at++
	}
	v := k.gemv[at]
	clusters, groups := k.sms/v.blocks, int(p.Tiles/p.Matrices)
	p.M, p.Each = int32(m), int32((groups+clusters-1)/clusters)*p.Matrices
	return driver.Launch(s, v.kernel, driver.Grid{X: int((p.Tiles+p.Each-1)/p.Each) * v.blocks, Cluster: v.blocks, Threads: k.threads, Shared: v.room}, &p)
}

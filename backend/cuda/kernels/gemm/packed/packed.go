// Package packed is the linear layer whose weights stay quantised on the GPU, packed in slabs that serve few rows, wgmma and opening alike:
// for up to some 256 rows, or 1,024 of formats of four bits, they are opened in registers; for more they are opened to bf16 first, by Open.
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

	// What Folded does of its neighbours' work.
	Norm     driver.Ptr // [K] float32, the weights that rows of X are normalised with (RMSNorm) before they are multiplied; or 0
	Eps      float32    // of that
	Residual driver.Ptr // [Rows, N] bf16, added to the Y of the only part; or 0
}

// Scratch is device memory that the launches of all problems share.
type Scratch struct {
	Partial driver.Ptr // densesm90.PartialBytes, whatever they hold
	Sums    driver.Ptr // as many, full of 0xff between launches
	Arrived driver.Ptr // MaxTiles int32, zeros between launches
	Squares driver.Ptr // SquaresBytes, from a Summed launch to those behind it
}

// Kernel is a problem bound to its kernels: few for up to 4 rows, wide for more; where that does not fit few for all, 8 at a time, but on older
// GPUs rows for more than 8.
type Kernel struct {
	base    few
	few     []fewKernel // for more and more rows
	threads int         // of a block of those
	sms     int
	wide    *wide
	rows    *rows
}

// fewKernel is a kernel of digits.h or few.h for up to so many rows.
type fewKernel struct {
	name   string
	kernel *driver.Kernel
	rows   int
	blocks int // that have a tile together: 2 are a pair of digits.h
	room   int // the shared memory of a block, in bytes
}

// part mirrors PackedPart of unit.h. Tiles is, in few, how many of 16 rows the parts before it have; in wide, how many of wideTile it has.
type part struct {
	W, Bias, Y driver.Ptr
	N, Tiles   int32
}

// few mirrors FewParams of ring.h.
type few struct {
	X               driver.Ptr
	Part            [3]part
	M, K, Parts, Fn int32

	Turn, Tiles, Each, Units int32

	Eps            float32
	_              int32
	Norm, Residual driver.Ptr
}

// fewRows is how many rows of x a launch of few takes; from more than digitRows on, wide is faster.
const (
	fewRows   = 8
	digitRows = 4
)

// New binds a problem to the kernels for a format that Has.
func New(l *kernels.Loader, f quant.Format, p Problem, s Scratch) (*Kernel, error) {
	lay := layouts[f]
	k := &Kernel{base: newFew(p), sms: l.SMs()}
	var err error
	switch {
	case !l.Hopper() && len(p.Parts) == 1: // as all are there: only Hopper joins layers
		k.rows, err = newRows(l, lay)
	case l.Hopper() && fits(p):
		k.wide, err = newWide(l, lay, p, s)
	}
	if err != nil {
		return nil, err
	}
	return k, k.findFew(l, lay)
}

func newFew(p Problem) few {
	b := few{X: p.X, K: int32(p.K), Parts: int32(len(p.Parts)), Fn: p.Fn, Turn: 1, Units: int32(tileUnits(p.K)), Eps: p.Eps, Norm: p.Norm, Residual: p.Residual}
	for i, w := range p.Parts {
		b.Part[i] = part{W: w.W, Bias: w.Bias, Y: w.Y, N: int32(w.N), Tiles: b.Tiles}
		b.Tiles += int32(tiles(w.N))
	}
	for i := len(p.Parts); i < len(b.Part); i++ {
		b.Part[i].Tiles = math.MaxInt32 // so that no tile is of it
	}
	if p.Gated {
		b.Turn = 2
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
		n := min(m, fewRows)
		switch {
		case m > digitRows && k.wide != nil:
			return k.wide.launch(s, m)
		case m > fewRows && k.rows != nil:
			n = min(m, rowsMost)
			if err := k.rows.launch(s, &p, n); err != nil {
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

// findFew gets the kernels for up to 8 rows. Those of digits.h keep all of x in shared memory, where it may find no room; the one for 8 is only
// assembled, which takes the driver its time, where the others leave something to it.
func (k *Kernel) findFew(l *kernels.Loader, lay layout) error {
	b := blockOf(l, lay)
	if err := k.findDigits(l, lay, b, ""); err != nil || k.wide != nil && len(k.few) == len(digitNames) {
		return err
	}
	eight, err := l.Kernel(lay.kernels, "eight", b.most)
	k.few = append(k.few, fewKernel{name: "eight", kernel: eight, rows: fewRows, blocks: 1, room: b.eight})
	return err
}

// findDigits gets the kernels of digits.h that find room, with what their names end in.
func (k *Kernel) findDigits(l *kernels.Loader, lay layout, b block, end string) error {
	k.threads = 32 * b.warps
	for i, name := range digitNames {
		v := fewKernel{name: name + end, rows: 1 << i, blocks: 1}
		if l.Hopper() && k.pairs(v.rows) {
			v.name, v.blocks = name+"_pair", 2
		}
		v.room = b.digits(lay, v.rows, v.blocks, int(k.base.Units))
		if v.room > b.most {
			break
		}
		var err error
		if v.kernel, err = l.Kernel(lay.kernels, v.name, b.most); err != nil { // launches of the same kernel differ in their room
			return err
		}
		k.few = append(k.few, v)
	}
	return nil
}

// pairs reports whether a launch for so many rows is dealt out to pairs of blocks: one whose rows' digits take long to make, and whose tiles
// are one round.
func (k *Kernel) pairs(rows int) bool {
	return k.base.Norm == 0 && k.base.Turn == 1 && int(k.base.Tiles) <= k.sms/2*2*roundTiles(rows)
}

// roundTiles is how many tiles' sums a block of digits.h adds up at a time.
func roundTiles(rows int) int { return 8 / rows }

// digitNames are the kernels of digits.h, for 1, 2 and 4 rows.
var digitNames = [...]string{"one", "two", "four"}

// Folds is the most rows that Folded takes of k numbers each.
func Folds(l *kernels.Loader, f quant.Format, k int) (rows int) {
	lay := layouts[f]
	b := blockOf(l, lay)
	for i := range digitNames {
		if b.digits(lay, 1<<i, 1, tileUnits(k)) > b.most {
			break
		}
		rows = 1 << i
	}
	return rows
}

// Folded is New for a problem with a neighbour's work, for up to Folds rows.
func Folded(l *kernels.Loader, f quant.Format, p Problem) (*Kernel, error) {
	lay := layouts[f]
	k, end := &Kernel{base: newFew(p), sms: l.SMs()}, ""
	if p.Norm != 0 {
		end = "_norm"
	}
	return k, k.findDigits(l, lay, blockOf(l, lay), end)
}

// block is a block of the kernels for few rows, as ring.h, digits.h and kernels.h have it; shared memory in bytes. Blocks take the least at
// least, so that no two fit on a multiprocessor: where two fit two come, and other multiprocessors have none.
type block struct{ warps, ring, eight, least, most int }

func blockOf(l *kernels.Loader, lay layout) block {
	switch {
	case !l.Hopper():
		return block{warps: 8, ring: 56 << 10, eight: 98 << 10, most: 98 << 10}
	case lay.bytes > 640:
		return block{warps: 16, ring: 93 << 10, eight: 195 << 10, least: 116 << 10, most: 226 << 10}
	}
	return block{warps: 16, ring: 93 << 10, eight: 163 << 10, least: 116 << 10, most: 226 << 10}
}

// digits is the shared memory of a block of digits.h, of so many that have a tile together.
func (b block) digits(lay layout, rows, blocks, units int) int {
	unit, ring, runs := 2*lay.bytes, b.ring, b.warps/blocks
	if rows == 4 {
		ring = ring * 8 / 9
	}
	rings := b.warps * unit * max(3, ring/(b.warps*unit))
	sums := (roundTiles(rows)*b.warps*(16*rows+1)*4 + 15) / 16 * 16
	return max(b.least, rings+2*sums+runs*((units+b.warps-1)/b.warps)*(lay.subs*rows)*(32*8+4*8))
}

// launch computes up to fewRows rows, dealing tiles out to a block a multiprocessor.
func (k *Kernel) launch(s *driver.Stream, p few, m int) error {
	at := 0
	for k.few[at].rows < m {
		at++
	}
	v := k.few[at]
	teams, groups := k.sms/v.blocks, int(p.Tiles/p.Turn)
	p.M, p.Each = int32(m), int32((groups+teams-1)/teams)*p.Turn
	return driver.Launch(s, v.kernel, driver.Grid{X: int((p.Tiles+p.Each-1)/p.Each) * v.blocks, Cluster: v.blocks, Threads: k.threads, Shared: v.room}, &p)
}

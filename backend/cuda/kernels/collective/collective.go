// Package collective is all-reduce, all-gather and messages between GPUs that address each other's memory.
package collective

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// What collective.cu says of the memory that ranks write to.
const (
	MaxRanks    = 8
	head        = 4096
	stage       = 16 << 20
	WindowBytes = head + 2*stage // of a rank
	Zeros       = head           // the first bytes are zeros at the beginning, and all others 0xff
)

const (
	once    = 512 << 10             // most bytes of an all-reduce in one shot
	parts   = stage/2 - 16*MaxRanks // and of one launch in two shots: parts of all ranks are rounded up to vectors
	message = stage / MaxRanks      // and of one launch of a message
	threads = 256
)

// Params mirrors CollectiveParams of collective.cu.
type Params struct {
	X, Y         driver.Ptr
	Windows      [MaxRanks]driver.Ptr // of each rank, as this one addresses them
	Aborted      driver.Ptr           // uint32 in pinned host memory; not 0: nobody waits any more
	N            int64
	Rank, Ranks  int32
	Width, Whole int32
	Peer         int32
	Share        int32 // 1: two ranks share a GPU
}

// Group is a rank's end of a group, as launches need it.
type Group struct {
	Windows     [MaxRanks]driver.Ptr
	Aborted     driver.Ptr
	Rank, Ranks int
	Share       bool
	SMs         int
}

func (g *Group) params(x, y driver.Ptr) Params {
	p := Params{X: x, Y: y, Windows: g.Windows, Aborted: g.Aborted, Rank: int32(g.Rank), Ranks: int32(g.Ranks)}
	if g.Share {
		p.Share = 1
	}
	return p
}

// blocks is how many blocks move so many vectors: no more than the GPU has at once, and a quarter where ranks share it.
func (g *Group) blocks(vectors int64) int {
	most := 2 * g.SMs
	if g.Share {
		most = g.SMs / 2
	}
	return int(max(1, min((vectors+threads-1)/threads, int64(most))))
}

// Reduce is the all-reduce of numbers of a type.
type Reduce struct {
	once, parts *driver.Kernel
	size        int64
}

// NewReduce finds the kernels.
func NewReduce(l *kernels.Loader, t graph.Type) (r Reduce, err error) {
	if !kernels.Plain(t) {
		return r, fmt.Errorf("cuda: an all-reduce of %s; f32 and bf16 are possible", t)
	}
	r.size = t.RowBytes(1)
	if r.once, err = l.Kernel("collective/collective", kernels.Name("reduce_once", t), 0); err != nil {
		return r, err
	}
	r.parts, err = l.Kernel("collective/collective", kernels.Name("reduce_parts", t), 0)
	return r, err
}

// Launch has y be the sum of n numbers of all ranks' x.
func (r Reduce) Launch(s *driver.Stream, g *Group, x, y driver.Ptr, n int64) error {
	if bytes := n * r.size; bytes <= once {
		p := g.params(x, y)
		p.N = n
		return driver.Launch(s, r.once, driver.Grid{X: int((bytes + 16*threads - 1) / (16 * threads)), Threads: threads}, &p)
	}
	for each := parts / r.size; n > 0; n -= each {
		p := g.params(x, y)
		p.N = min(n, each)
		if err := driver.Launch(s, r.parts, driver.Grid{X: g.blocks((p.N*r.size/16 + int64(g.Ranks) - 1) / int64(g.Ranks)), Threads: threads}, &p); err != nil {
			return err
		}
		x, y = x+driver.Ptr(each*r.size), y+driver.Ptr(each*r.size)
	}
	return nil
}

// NormParams mirrors ReduceNormParams of collective.cu.
type NormParams struct {
	Params
	Add, Sum, Weight driver.Ptr
	Eps              float32
	_                int32
}

// widest is the longest row of ReduceNorm: 1024 threads × 8 numbers.
const widest = 8192

// FitsNorm reports whether there is a ReduceNorm for rows of n numbers of a type.
func FitsNorm(t graph.Type, n int) bool { return t == graph.BF16 && n%8 == 0 && n <= widest }

// ReduceNorm is the all-reduce of BF16 rows in one shot, with what is added to them and the norm of that.
type ReduceNorm struct {
	Weight driver.Ptr // [width] float32
	kernel *driver.Kernel
	width  int64
	eps    float32
}

// NewReduceNorm finds the kernel for rows of so many numbers, which must fit.
func NewReduceNorm(l *kernels.Loader, width int, eps float32) (ReduceNorm, error) {
	k, err := l.Kernel("collective/collective", "reduce_norm_bf16", 0)
	return ReduceNorm{kernel: k, width: int64(width), eps: eps}, err
}

// Fits reports whether the kernel is for so many rows: no more than an all-reduce in one shot takes and than blocks, one a row, run at the same time.
func (r ReduceNorm) Fits(g *Group, rows int) bool {
	most := g.SMs
	if g.Share {
		most /= 2 * g.Ranks
	}
	return 2*int64(rows)*r.width <= once && rows <= most
}

// Launch has sum be add and the sum of all ranks' x, and y the norm of that.
func (r ReduceNorm) Launch(s *driver.Stream, g *Group, x, add, sum, y driver.Ptr, rows int) error {
	if rows == 0 {
		return nil
	}
	p := NormParams{Params: g.params(x, y), Add: add, Sum: sum, Weight: r.Weight, Eps: r.eps}
	p.N, p.Width = int64(rows)*r.width, int32(r.width)
	return driver.Launch(s, r.kernel, driver.Grid{X: rows, Threads: int((r.width/8 + 31) / 32 * 32)}, &p)
}

// unit is in how many bytes rows of so many bytes are moved: 16, 4 or 2.
func unit(rows ...int64) int64 {
	for _, u := range []int64{16, 4} {
		fits := true
		for _, bytes := range rows {
			fits = fits && bytes%u == 0
		}
		if fits {
			return u
		}
	}
	return 2
}

// Gather is the all-gather of rows of Width numbers to rows of Whole.
type Gather struct {
	kernel, join       *driver.Kernel
	unit, width, whole int64 // bytes; width and whole of a row
}

// NewGather finds the kernels for rows of so many numbers of a type.
func NewGather(l *kernels.Loader, t graph.Type, width, whole int) (g Gather, err error) {
	if !kernels.Plain(t) {
		return g, fmt.Errorf("cuda: an all-gather of %s; f32 and bf16 are possible", t)
	}
	g.width, g.whole = t.RowBytes(width), t.RowBytes(whole)
	g.unit = unit(g.width, g.whole)
	if g.kernel, err = l.Kernel("collective/collective", fmt.Sprintf("gather_%d", g.unit), 0); err != nil {
		return g, err
	}
	g.join, err = l.Kernel("collective/collective", fmt.Sprintf("join_%d", g.unit), 0)
	return g, err
}

// Launch has y be the rows of all ranks' x side by side.
func (k Gather) Launch(s *driver.Stream, g *Group, x, y driver.Ptr, rows int) error {
	staged := k.width / k.unit * max(k.unit, 4) // bytes of a row in a stage
	each := int(stage / (staged * int64(g.Ranks)))
	if each == 0 {
		return fmt.Errorf("cuda: an all-gather of rows of %d bytes on each of %d ranks; %d bytes together are the most", k.width, g.Ranks, stage)
	}
	for ; rows > 0; rows -= each {
		p := g.params(x, y)
		p.Width, p.Whole = int32(k.width/k.unit), int32(k.whole/k.unit)
		n := min(rows, each)
		p.N = int64(n) * int64(p.Width)
		if err := driver.Launch(s, k.kernel, driver.Grid{X: g.blocks(p.N), Threads: threads}, &p); err != nil {
			return err
		}
		x, y = x+driver.Ptr(int64(n)*k.width), y+driver.Ptr(int64(n)*k.whole)
	}
	return nil
}

// Join puts the shards of all ranks, one behind the other in x, side by side in y.
func (k Gather) Join(s *driver.Stream, sms int, x, y driver.Ptr, rows int) error {
	p := Params{X: x, Y: y, Width: int32(k.width / k.unit), Whole: int32(k.whole / k.unit)}
	if p.N = int64(rows) * int64(p.Whole); p.N == 0 {
		return nil
	}
	return driver.Launch(s, k.join, driver.Grid{X: int(min((p.N+threads-1)/threads, int64(8*sms))), Threads: threads}, &p)
}

// greetings are the last bytes of a stage, which exchanges need for themselves.
const greetings = 128

// ExchangeParams mirrors ExchangeParams of collective.cu.
type ExchangeParams struct {
	Params
	Most             int32
	XWhole, YWhole   int32
	N, XRow, XColumn [MaxRanks]int32
	M, YRow, YColumn [MaxRanks]int32
	_                int32
}

// Block is rows of a matrix, from a row and a column on.
type Block struct{ Row, Rows, Column int }

// Exchange is an all-to-all of blocks of rows of so many numbers, which lie in longer ones.
type Exchange struct {
	kernel         *driver.Kernel
	unit           int64
	number         int64 // bytes of one
	width          int64 // bytes, as are the lengths of whole rows
	xWhole, yWhole int64
}

// NewExchange finds the kernel for blocks of width numbers of a type, in rows of xWhole and yWhole of them. columns are all that blocks begin at.
func NewExchange(l *kernels.Loader, t graph.Type, width, xWhole, yWhole int, columns ...int) (x Exchange, err error) {
	if !kernels.Plain(t) {
		return x, fmt.Errorf("cuda: GPUs that divide rows exchange f32 and bf16, not %s", t)
	}
	x.number, x.width, x.xWhole, x.yWhole = t.RowBytes(1), t.RowBytes(width), t.RowBytes(xWhole), t.RowBytes(yWhole)
	sizes := []int64{x.width, x.xWhole, x.yWhole}
	for _, c := range columns {
		sizes = append(sizes, t.RowBytes(c))
	}
	x.unit = unit(sizes...)
	x.kernel, err = l.Kernel("collective/collective", fmt.Sprintf("exchange_%d", x.unit), 0)
	return x, err
}

// Launch sends to[r] of x to rank r, and has from[r] of y be what rank r sends; every rank is in both. What two ranks have for each other is of as many rows on both. most is the most rows
// of a block on any rank, by which all divide it among launches.
func (k Exchange) Launch(s *driver.Stream, g *Group, x, y driver.Ptr, to, from []Block, most int) error {
	staged := k.width / k.unit * max(k.unit, 4) // bytes of a row in a stage
	each := int((stage - greetings) / (staged * int64(g.Ranks)))
	if each == 0 {
		return fmt.Errorf("cuda: an exchange of rows of %d bytes among %d ranks; %d bytes together are the most", k.width, g.Ranks, stage-greetings)
	}
	for first := 0; first < most; first += each {
		p := ExchangeParams{Params: g.params(x, y), Most: int32(min(each, most-first)), XWhole: int32(k.xWhole / k.unit), YWhole: int32(k.yWhole / k.unit)}
		p.Width = int32(k.width / k.unit)
		part := func(b Block) (row, rows, column int32) {
			return int32(b.Row + first), int32(min(max(b.Rows-first, 0), each)), int32(int64(b.Column) * k.number / k.unit)
		}
		for r := range g.Ranks {
			p.XRow[r], p.N[r], p.XColumn[r] = part(to[r])
			p.YRow[r], p.M[r], p.YColumn[r] = part(from[r])
		}
		if err := driver.Launch(s, k.kernel, driver.Grid{X: g.blocks(int64(p.Most) * int64(p.Width)), Threads: threads}, &p); err != nil {
			return err
		}
	}
	return nil
}

// SelectedParams mirrors SelectedParams of collective.cu.
type SelectedParams struct {
	Params
	Chosen driver.Ptr // [rows] int32
	First  [MaxRanks + 1]int32
	_      int32
}

// Selected brings chosen rows of those that ranks divide to rank 0.
type Selected struct {
	kernel *driver.Kernel
	unit   int64
	width  int64 // bytes of a row
}

// NewSelected finds the kernel for rows of so many numbers of a type.
func NewSelected(l *kernels.Loader, t graph.Type, width int) (x Selected, err error) {
	if !kernels.Plain(t) {
		return x, fmt.Errorf("cuda: GPUs that divide rows exchange f32 and bf16, not %s", t)
	}
	x.width = t.RowBytes(width)
	x.unit = unit(x.width)
	x.kernel, err = l.Kernel("collective/collective", fmt.Sprintf("selected_%d", x.unit), 0)
	return x, err
}

// Launch has row i of rank 0's y be row chosen[i] of all; x is this rank's rows, and first[r] the first of rank r among all, with the end of the last behind.
func (k Selected) Launch(s *driver.Stream, g *Group, x, y, chosen driver.Ptr, rows int, first []int32) error {
	staged := k.width / k.unit * max(k.unit, 4)
	each := int((stage - greetings) / staged)
	if each == 0 {
		return fmt.Errorf("cuda: a choice of rows of %d bytes; %d are the most", k.width, stage-greetings)
	}
	for ; rows > 0; rows -= each {
		p := SelectedParams{Params: g.params(x, y), Chosen: chosen}
		copy(p.First[:], first)
		n := min(rows, each)
		p.N, p.Width = int64(n), int32(k.width/k.unit)
		if err := driver.Launch(s, k.kernel, driver.Grid{X: g.blocks(p.N * int64(p.Width)), Threads: threads}, &p); err != nil {
			return err
		}
		y, chosen = y+driver.Ptr(int64(n)*k.width), chosen+driver.Ptr(4*n)
	}
	return nil
}

// Message is a message from one rank to another.
type Message struct {
	kernel *driver.Kernel
	sends  bool
}

// NewMessage finds the kernel that sends a message, or the one that receives it.
func NewMessage(l *kernels.Loader, sends bool) (Message, error) {
	name := "receive"
	if sends {
		name = "send"
	}
	k, err := l.Kernel("collective/collective", name, 0)
	return Message{k, sends}, err
}

// Launch sends so many bytes at a place to a rank, or receives them there from it.
func (k Message) Launch(s *driver.Stream, g *Group, peer int, at driver.Ptr, bytes int64) error {
	for ; bytes > 0; bytes -= message {
		p := g.params(at, at)
		p.N, p.Peer = min(bytes, message), int32(peer)
		if err := driver.Launch(s, k.kernel, driver.Grid{X: g.blocks(p.N / 16), Threads: threads}, &p); err != nil {
			return err
		}
		at += message
	}
	return nil
}

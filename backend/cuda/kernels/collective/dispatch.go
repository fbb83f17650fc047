package collective

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Routes is a rank's memory for the rows of one Dispatch at a time, until the Combine that brings them back.
type Routes struct {
	Come    driver.Ptr // [rows of all ranks, held] float32: shares of this rank's experts
	Arrived driver.Ptr // [rows of all ranks] int32: the rows that come
	Number  driver.Ptr // [rows of all ranks] int32: a row's number among them, or -1
	Reached driver.Ptr // [own rows] uint32: the ranks with an expert of the row, a bit each
}

// RoutesBytes is what each of Routes' lists takes, for so many rows of all ranks, and held experts.
func RoutesBytes(rows, held int) (come, list int64) {
	return 4 * int64(rows) * int64(held), 4 * int64(rows)
}

// routesParams mirrors Routes of dispatch.cu.
type routesParams struct {
	Routes
	Count       driver.Ptr
	First       [MaxRanks + 1]int32
	Rank, Ranks int32
	_           int32
}

type placeParams struct {
	Shares, Placed, First, Copies driver.Ptr
	Rows, Scored, Experts         int32
	Own, Each                     int32
	_                             int32
}

type arrivalsParams struct {
	routes routesParams
	Held   int32
	_      int32
}

type dispatchParams struct {
	Params
	routes                     routesParams
	Shares, Here               driver.Ptr
	Experts, Held, Split, Part int32
	From, Each                 int32
}

type combineParams struct {
	Params
	routes     routesParams
	From, Each int32
}

// FitsDispatch says why rows of so many numbers of a type cannot be sent to experts by these kernels; nil if they can.
func FitsDispatch(t graph.Type, width, ranks int) error {
	switch {
	case !kernels.Plain(t):
		return fmt.Errorf("cuda: GPUs send rows of f32 and bf16 to experts, not of %s", t)
	case t.RowBytes(width)%16 != 0 || t.RowBytes(width)*int64(ranks) > stage-greetings:
		return fmt.Errorf("cuda: GPUs send rows of whole vectors of 16 bytes to experts, and of %d bytes at most; these have %d", (stage-greetings)/ranks, t.RowBytes(width))
	case ranks > MaxRanks:
		return fmt.Errorf("cuda: %d ranks send rows to experts, and %d are the most", ranks, MaxRanks)
	}
	return nil
}

// Dispatch sends rows to the ranks that hold their experts.
type Dispatch struct {
	Placed driver.Ptr // [own rows, experts] float32, where experts are placed by load

	spread                graph.Spread
	rank                  int
	shares                Exchange
	place, arrivals, move *driver.Kernel
	firstCopy, copies     driver.Ptr
	width, rowBytes       int64
}

// Copies lists the places of each expert among those of all ranks, one expert's behind the other's, and where in the list each one's begin.
func Copies(p *graph.Placed) (first, copies []int32) {
	for e := range p.Experts {
		first = append(first, int32(len(copies)))
		for at, of := range p.Of {
			if of == e {
				copies = append(copies, int32(at))
			}
		}
	}
	return append(first, int32(len(copies))), copies
}

// NewDispatch finds the kernels for rows of so many numbers of a type, which must fit. first and copies are the lists of Copies on the device, where experts are placed.
func NewDispatch(l *kernels.Loader, t graph.Type, width int, o graph.Spread, rank int, first, copies driver.Ptr) (d Dispatch, err error) {
	d = Dispatch{spread: o, rank: rank, firstCopy: first, copies: copies, rowBytes: t.RowBytes(width)}
	d.width = d.rowBytes / 16
	var columns []int
	for r := range o.Ranks {
		columns = append(columns, o.First(r))
	}
	if d.shares, err = NewExchange(l, graph.F32, o.Held(), o.Experts, o.Held(), columns...); err != nil {
		return d, err
	}
	for _, k := range []struct {
		to   **driver.Kernel
		name string
	}{{&d.place, "place"}, {&d.arrivals, "arrivals"}, {&d.move, "dispatch"}} {
		if *k.to, err = l.Kernel("collective/dispatch", k.name, 0); err != nil {
			return d, err
		}
	}
	return d, nil
}

// routesOf is a step's routes: first is the first row of each rank among those of all, with the end behind, and count where the number of rows that come is.
func routesOf(g *Group, t Routes, count driver.Ptr, first []int32) routesParams {
	p := routesParams{Routes: t, Count: count, Rank: int32(g.Rank), Ranks: int32(g.Ranks)}
	copy(p.First[:], first)
	return p
}

// rowsIn is how many rows of so many bytes, of each rank, a launch moves.
func rowsIn(g *Group, bytes int64) int { return int((stage - greetings) / (bytes * int64(g.Ranks))) }

// most is the most rows of a rank.
func most(first []int32) (n int) {
	for i, f := range first[1:] {
		n = max(n, int(f-first[i]))
	}
	return n
}

// Launch has y be the rows of all ranks' x with a share in this rank's experts, in the order of ranks, here their shares, [rows, experts], 0 of other ranks' experts, and *count their number. shares are
// those of x, [rows, experts that are scored].
func (d Dispatch) Launch(s *driver.Stream, g *Group, t Routes, x, shares, y, here, count driver.Ptr, first []int32) error {
	o := d.spread
	own := int(first[g.Rank+1] - first[g.Rank])
	if o.Placed != nil {
		if own > 0 {
			each := int32(o.Held() * o.Split)
			p := placeParams{Shares: shares, Placed: d.Placed, First: d.firstCopy, Copies: d.copies, Rows: int32(own), Scored: int32(o.Scored()), Experts: int32(o.Experts), Own: int32(d.rank), Each: each}
			if err := driver.Launch(s, d.place, driver.Grid{X: g.blocks(32 * int64(own)), Threads: threads}, &p); err != nil {
				return err
			}
		}
		shares = d.Placed
	}
	var to, from [MaxRanks]Block
	for r := range g.Ranks {
		to[r] = Block{Rows: own, Column: o.First(r)}
		from[r] = Block{Row: int(first[r]), Rows: int(first[r+1] - first[r])}
	}
	if err := d.shares.Launch(s, g, shares, t.Come, slices.Clip(to[:g.Ranks]), from[:g.Ranks], most(first)); err != nil {
		return err
	}
	routes := routesOf(g, t, count, first)
	if err := driver.Launch(s, d.arrivals, driver.Grid{X: 1, Threads: 1024}, &arrivalsParams{routes: routes, Held: int32(o.Held())}); err != nil {
		return err
	}
	each := rowsIn(g, d.rowBytes)
	for from := 0; from < most(first); from += each {
		p := dispatchParams{Params: g.params(x, y), routes: routes, Shares: shares, Here: here, Experts: int32(o.Experts), Held: int32(o.Held()), Split: int32(o.Split), Part: int32(o.Part), From: int32(from), Each: int32(each)}
		p.Width = int32(d.width)
		if err := driver.Launch(s, d.move, driver.Grid{X: g.blocks(int64(first[g.Ranks]) * d.width), Threads: threads}, &p); err != nil {
			return err
		}
	}
	return nil
}

// CombineRows brings what experts have made of rows back.
type CombineRows struct {
	kernel          *driver.Kernel
	width, rowBytes int64
}

// NewCombineRows finds the kernel for rows of so many numbers of a type, which must fit.
func NewCombineRows(l *kernels.Loader, t graph.Type, width int) (CombineRows, error) {
	k, err := l.Kernel("collective/dispatch", kernels.Name("combine", t), 0)
	bytes := t.RowBytes(width)
	return CombineRows{k, bytes / 16, bytes}, err
}

// Launch has y be the sums, for each of this rank's rows, of what the experts of all ranks have made of it; x is that of rows that have come here. The routes are those of the Dispatch.
func (k CombineRows) Launch(s *driver.Stream, g *Group, t Routes, x, y, count driver.Ptr, first []int32) error {
	each := rowsIn(g, k.rowBytes)
	for from := 0; from < most(first); from += each {
		p := combineParams{Params: g.params(x, y), routes: routesOf(g, t, count, first), From: int32(from), Each: int32(each)}
		p.Width = int32(k.width)
		if err := driver.Launch(s, k.kernel, driver.Grid{X: g.blocks(int64(first[g.Ranks]) * k.width), Threads: threads}, &p); err != nil {
			return err
		}
	}
	return nil
}

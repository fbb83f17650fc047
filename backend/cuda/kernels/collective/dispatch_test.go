package collective

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestDispatchMirrors(t *testing.T) {
	gputest.Mirrors(t, "collective/dispatch", map[string]uintptr{"place": unsafe.Sizeof(placeParams{}), "arrivals": unsafe.Sizeof(arrivalsParams{}), "dispatch": unsafe.Sizeof(dispatchParams{}), "combine_": unsafe.Sizeof(combineParams{})})
}

// TestCopies: every place of an expert is in its list.
func TestCopies(t *testing.T) {
	first, copies := Copies(&graph.Placed{Of: []int{2, 0, 1, 2, 3, 0}, Experts: 4})
	if want := []int32{0, 2, 3, 5, 6}; !slices.Equal(first, want) {
		t.Errorf("lists begin at %d, want %d", first, want)
	}
	if want := []int32{1, 5, 2, 0, 3, 4}; !slices.Equal(copies, want) {
		t.Errorf("copies are %d, want %d", copies, want)
	}
}

// TestDispatchRows: rows go to the ranks with a share in them and come back as the sums of what these have made, in order, to the last bit: ranks without rows, rows of no rank, experts divided further
// and placed by load, and more rows than a launch takes; again and again.
func TestDispatchRows(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, n := range []int{2, 3, 4} {
			r := newRanks(g, n)
			for _, typ := range gputest.Plain {
				for _, width := range []int{8, 264, 2048} {
					for _, rows := range [][]int{{1, 1, 1, 1}, {0, 3, 0, 0}, {40, 7, 33, 2}, {1500, 700, 1, 1200}} {
						for _, o := range []graph.Spread{{Ranks: n, Split: 1, Experts: 4 * n, Top: 2}, {Ranks: n, Split: 2, Part: 1, Experts: 6 * n, Top: 3}, placed(n)} {
							g.Scope(func() { r.testDispatch(typ, width, rows[:n], o) })
						}
					}
				}
			}
			g.Scope(func() {
				r.testDispatch(graph.BF16, 4096, []int{1300, 10, 1, 0}[:n], graph.Spread{Ranks: n, Split: 1, Experts: 4 * n, Top: 2})
			})
			r.close()
		}
	})
}

// placed is 3n experts on n ranks with four places each: some are on several.
func placed(n int) graph.Spread {
	p := &graph.Placed{Experts: 3 * n}
	for i := range 4 * n {
		p.Of = append(p.Of, i*5%(3*n))
	}
	return graph.Spread{Ranks: n, Split: 1, Experts: 4 * n, Top: 2, Placed: p}
}

// chosenShares is random shares of Top experts a row; every seventh row has none.
func (r *ranks) chosenShares(rows int, o graph.Spread) []float32 {
	s := make([]float32, rows*o.Scored())
	for i := range rows {
		for k := 0; i%7 != 6 && k < o.Top; k++ {
			s[i*o.Scored()+int(r.Rand.Uint32())%o.Scored()] = 0.25 + float32(k)/8
		}
	}
	return s
}

// atPlaces is shares of experts as those of their copies.
func atPlaces(shares []float32, o graph.Spread, rank int) []float32 {
	if o.Placed == nil {
		return shares
	}
	rows := len(shares) / o.Scored()
	made := make([]float32, rows*o.Experts)
	for i, x := range shares {
		row, e := i/o.Scored(), i%o.Scored()
		var all []int
		for at, of := range o.Placed.Of {
			if of == e {
				all = append(all, at)
			}
		}
		if len(all) == 0 || x == 0 {
			continue
		}
		at := all[row%len(all)]
		for _, place := range all {
			if place/(o.Held()*o.Split) == rank {
				at = place
				break
			}
		}
		made[row*o.Experts+at] = x
	}
	return made
}

func (r *ranks) testDispatch(typ graph.Type, width int, rows []int, o graph.Spread) {
	n, total := len(r.groups), 0
	first := []int32{0}
	for _, k := range rows {
		total += k
		first = append(first, int32(total))
	}
	var x, shares [MaxRanks][]float32
	var px, pshares, py, phere, pcount, psum, pmade [MaxRanks]driver.Ptr
	var routes [MaxRanks]Routes
	var kernel [MaxRanks]Dispatch
	for i := range n {
		x[i], shares[i] = r.Random(rows[i]*width, 1), r.chosenShares(rows[i], o)
		px[i], pshares[i] = put(r.GPU, typ, append(x[i], 0)), r.F32(append(shares[i], 0))
		shares[i] = atPlaces(shares[i], o, i)
		come, list := RoutesBytes(total, o.Held())
		routes[i] = Routes{r.Poisoned(int(come)), r.Poisoned(int(list)), r.Poisoned(int(list)), r.Poisoned(int(list))}
		py[i], phere[i], pcount[i] = r.Poisoned(total*int(typ.RowBytes(width))), r.Poisoned(4*total*o.Experts), r.Poisoned(4)
		psum[i] = r.Poisoned(rows[i]*int(typ.RowBytes(width)) + 16)
		pmade[i] = put(r.GPU, typ, r.Random(total*width, 1))
		var f, c driver.Ptr
		if o.Placed != nil {
			a, b := Copies(o.Placed)
			f, c = r.Ints(a...), r.Ints(b...)
		}
		var err error
		kernel[i], err = NewDispatch(r.Loader, typ, width, o, i, f, c)
		r.Must(err)
		kernel[i].Placed = r.Poisoned(4*rows[i]*o.Experts + 16)
	}
	back, err := NewCombineRows(r.Loader, typ, width)
	r.Must(err)
	r.Must(r.Stream.Synchronize())
	for range 3 {
		r.each(func(s *driver.Stream, g *Group) error {
			i := g.Rank
			if err := kernel[i].Launch(s, g, routes[i], px[i], pshares[i], py[i], phere[i], pcount[i], first); err != nil {
				return err
			}
			return back.Launch(s, g, routes[i], pmade[i], psum[i], pcount[i], first)
		})
	}
	what := fmt.Sprintf("%v rows of %d numbers of %s to %d of %d experts, part %d of %d", rows, width, typ, o.Top, o.Experts, o.Part, o.Split)
	sums := make([][]float32, n)
	for i := range n {
		sums[i] = make([]float32, rows[i]*width)
	}
	for at := range n { // in the order of ranks
		made := read(r.GPU, typ, pmade[at], total*width)
		var wantRows, wantShares []float32
		come := 0
		for i := range n {
			for k := range rows[i] {
				own := shares[i][k*o.Experts+o.First(at):][:o.Held()]
				if slices.Max(own) == 0 {
					continue
				}
				wantRows = append(wantRows, x[i][k*width:(k+1)*width]...)
				here := make([]float32, o.Experts)
				copy(here[o.First(at):], own)
				wantShares = append(wantShares, here...)
				for j := range width {
					sums[i][k*width+j] += made[come*width+j]
				}
				come++
			}
		}
		if typ == graph.BF16 {
			for j, v := range wantRows {
				wantRows[j] = quant.BF16ToF32(quant.F32ToBF16(v))
			}
		}
		if got := int(binary.LittleEndian.Uint32(r.ReadBytes(pcount[at], 4))); got != come {
			r.Fatalf("%s: %d come to rank %d, and %d are wanted", what, got, at, come)
		}
		same(r.GPU, fmt.Sprintf("%s: rows of rank %d", what, at), read(r.GPU, typ, py[at], come*width), wantRows)
		same(r.GPU, fmt.Sprintf("%s: shares of rank %d", what, at), read(r.GPU, graph.F32, phere[at], come*o.Experts), wantShares)
	}
	for i := range n {
		if typ == graph.BF16 {
			for j, v := range sums[i] {
				sums[i][j] = quant.BF16ToF32(quant.F32ToBF16(v))
			}
		}
		same(r.GPU, fmt.Sprintf("%s: sums of rank %d", what, i), read(r.GPU, typ, psum[i], rows[i]*width), sums[i])
	}
}

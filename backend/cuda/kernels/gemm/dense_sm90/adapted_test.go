package densesm90

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// adaptedCase is a problem whose rows have adapters.
type adaptedCase struct {
	m, k         int
	n            []int
	gated        bool
	ranks, slots int // of each slot, and how many there are
	of           int // adapters that rows have
	mixed        bool
	more         int // tiles by which the bound is too large, as that of a recorded step
	short        bool
}

// rowSlots is the slot of each row, -1 for every fifth but the first: those of an adapter one behind the other, or mixed.
func (c *adaptedCase) rowSlots() []int32 {
	all := make([]int32, c.m)
	for row := range all {
		at := row * c.of / c.m
		if c.mixed {
			at = row * 7 % c.of
		}
		if all[row] = int32(c.slots - 1 - at); row%5 == 3 {
			all[row] = -1
		}
	}
	return all
}

// rowTiles is tiles of rows, whose slots are given: the slot of each, and the tile of each row, -1 without one.
func rowTiles(g *gputest.GPU, rowSlots []int32, more int) (t *RowTiles, slots, ofRow []int32) {
	ofRow = slices.Repeat([]int32{-1}, len(rowSlots))
	var tiles, windows []int32
	for w := range Windows(len(rowSlots)) {
		windows = append(windows, int32(len(slots)))
		first := min(16*w, len(rowSlots))
		rows := rowSlots[first:min(16*w+16, len(rowSlots))]
		for slot := range int32(1000) {
			if !slices.Contains(rows, slot) {
				continue
			}
			for i := range rows {
				if rows[i] == slot {
					ofRow[first+i] = int32(len(slots))
				}
			}
			slots, tiles = append(slots, slot), append(tiles, slot, 1<<30, 1<<30, 1<<30)
		}
	}
	windows = append(windows, int32(len(slots)))
	most := func(rows int) (n int) {
		for i := 0; i+rows/16 < len(windows); i += rows / 16 {
			n = max(n, int(windows[i+rows/16]-windows[i]))
		}
		return n + more
	}
	return &RowTiles{Tiles: g.Ints(append(tiles, -1)...), Windows: g.Ints(windows...), Most: MostTiles{Of128: most(128), Of256: most(256)}}, slots, ofRow
}

// TestAdapted: what adapters add as further steps is B h of each row's own adapter, through every kernel. Slots that no row has are full of NaNs, as is what lies
// between, and h of tiles that there are not.
func TestAdapted(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if g.Ctx.Arch() != 90 {
			t.Skip("these kernels are Hopper's; this GPU is another")
		}
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 256)))
		for _, c := range []adaptedCase{
			{m: 1, k: 64, n: []int{64}, ranks: 16, slots: 1, of: 1, short: true},
			{m: 16, k: 4096, n: []int{264}, ranks: 16, slots: 3, of: 2, short: true},
			{m: 13, k: 1000, n: []int{512, 128, 128}, ranks: 8, slots: 14, of: 13, mixed: true},
			{m: 20, k: 640, n: []int{136}, ranks: 40, slots: 5, of: 3, short: true},
			{m: 60, k: 512, n: []int{768, 256, 256}, ranks: 16, slots: 9, of: 8, mixed: true, short: true},
			{m: 100, k: 320, n: []int{1000}, ranks: 24, slots: 2, of: 1, more: 9, short: true},
			{m: 200, k: 448, n: []int{520}, ranks: 16, slots: 6, of: 4, more: 20, short: true},
			{m: 300, k: 576, n: []int{640}, ranks: 64, slots: 2, of: 2, short: true},
			{m: 256, k: 1000, n: []int{512, 256}, ranks: 16, slots: 120, of: 100, more: 4, short: true},
			{m: 256, k: 4096, n: []int{4096, 1024, 1024}, ranks: 16, slots: 20, of: 16},
			{m: 256, k: 1000, n: []int{512, 256}, ranks: 32, slots: 30, of: 29, mixed: true},
			{m: 1300, k: 200, n: []int{1536, 512, 512}, ranks: 16, slots: 40, of: 37, short: true},
			{m: 5, k: 256, n: []int{200, 200}, gated: true, ranks: 16, slots: 2, of: 1, short: true},
			{m: 20, k: 128, n: []int{136, 136}, gated: true, ranks: 16, slots: 5, of: 3, mixed: true, short: true},
			{m: 40, k: 320, n: []int{704, 704}, gated: true, ranks: 8, slots: 30, of: 29, short: true},
			{m: 130, k: 192, n: []int{344, 344}, gated: true, ranks: 40, slots: 3, of: 2, more: 3, short: true},
			{m: 250, k: 448, n: []int{1024, 1024}, gated: true, ranks: 16, slots: 101, of: 100, more: 12, short: true},
			{m: 256, k: 4096, n: []int{14336, 14336}, gated: true, ranks: 16, slots: 17, of: 16},
			{m: 1300, k: 136, n: []int{1280, 1280}, gated: true, ranks: 16, slots: 3, of: 2, mixed: true},
		} {
			if testing.Short() && !c.short {
				continue
			}
			name := fmt.Sprintf("%+v", c)
			g.Sub(name, func(g *gputest.GPU) { c.check(g, name, sums) })
		}
	})
}

// check compares the problem's results with those in float64.
func (c *adaptedCase) check(g *gputest.GPU, name string, sums driver.Ptr) {
	passes, rowSlots := (c.ranks+unitRanks-1)/unitRanks, c.rowSlots()
	tiles, slots, ofRow := rowTiles(g, rowSlots, c.more)
	hidden := Hidden{Tiles: len(slots) + 3, Passes: passes + 1}
	x := g.Random(c.m*c.k, 1)
	p := Problem{Type: graph.BF16, X: g.BF16(x), Rows: c.m, K: c.k, Gated: c.gated}
	h := slices.Repeat([]float32{float32(math.NaN())}, int(hidden.Bytes()/2))
	var want [][]float64
	for i, n := range c.n {
		w := g.Random(n*c.k, 1/math.Sqrt(float64(c.k)))
		one := Weight{W: g.BF16(w), Y: g.Poisoned(2 * c.m * n), N: n}
		y := product(x, w, nil, c.m, n, c.k)
		stride := (passes + 1) * n * unitRanks
		all := slices.Repeat([]float32{float32(math.NaN())}, c.slots*stride)
		for pass := range passes { // a tile's rows are 0 but for its own
			at := (i*hidden.Passes + pass) * hidden.Tiles * 16 * unitRanks
			clear(h[at : at+len(slots)*16*unitRanks])
		}
		for slot := range c.slots {
			if !slices.Contains(slots, int32(slot)) {
				continue
			}
			b := g.Random(n*passes*unitRanks, 1)
			copy(all[slot*stride:], b)
			for row, of := range rowSlots {
				if int(of) != slot {
					continue
				}
				for r := range c.ranks {
					v, pass := g.Random(1, 1)[0], r/unitRanks
					h[(((i*hidden.Passes+pass)*hidden.Tiles+int(ofRow[row]))*16+row%16)*unitRanks+r%unitRanks] = v
					for o := range n {
						y[row*n+o] += float64(v) * float64(b[(pass*n+o)*unitRanks+r%unitRanks])
					}
				}
			}
		}
		one.B = AdapterB{At: g.BF16(all), Slots: c.slots, Passes: passes + 1}
		p.Weights, want = append(p.Weights, one), append(want, y)
	}
	if c.gated {
		for i := range want[0] {
			want[0][i] = silu(want[0][i]) * want[1][i]
		}
		up, interleaved := p.Weights[1], g.Poisoned(2*2*c.n[0]*c.k)
		g.Must(Interleave(g.Loader, g.Stream, p.Weights[0].W, up.W, interleaved, c.n[0], c.k))
		p.Weights[0].W, p.Weights[0].B2 = interleaved, up.B
		want, p.Weights = want[:1], p.Weights[:1]
	}
	hidden.At = g.BF16(h)
	kernel, err := NewAdapted(g.Loader, p, hidden, sums)
	g.Must(err)
	runTwice(g, name, &p, want, func() error { return kernel.Launch(g.Stream, c.m, tiles, passes) })
}

// BenchmarkAdapted is the shapes of Llama-3.1-8B with adapters of rank 16: the product alone, with what is added in its epilogue, and with further steps, beside
// the time that the bytes of B take.
func BenchmarkAdapted(b *testing.B) {
	const bandwidth = 4.2e12
	gputest.Run(b, func(g *gputest.GPU) {
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 8192)))
		for _, shape := range []struct {
			name  string
			k     int
			n     []int
			gated bool
		}{{"qkv", 4096, []int{4096, 1024, 1024}, false}, {"o", 4096, []int{4096}, false}, {"gate-up", 4096, []int{14336, 14336}, true}, {"down", 14336, []int{4096}, false}} {
			for _, c := range []struct{ m, of int }{{256, 100}, {256, 16}, {64, 64}, {512, 1}} {
				g.Scope(func() {
					total := 0
					for _, n := range shape.n {
						total += n
					}
					copies := max(1, 256<<20/(total*shape.k*2)+1)
					at := g.Ints(make([]int32, c.m)...)
					rowSlots := make([]int32, c.m)
					for row := range rowSlots {
						if rowSlots[row] = int32(row * c.of / c.m); c.of > 100 { // 256 rows of 100 adapters, and prompts of four
							if rowSlots[row] = int32(row * 100 / 256); row >= 256 {
								rowSlots[row] = int32(100 + (row-256)/448)
							}
						}
					}
					tiles, slots, _ := rowTiles(g, rowSlots, 0)
					hidden := Hidden{Tiles: len(slots), Passes: 1}
					hidden.At = g.Noise(int(hidden.Bytes()))
					planes := Planes{Rows: c.m}
					planes.At = g.Noise(int(planes.Bytes()))
					var plain, deltas []*Kernel
					var adapted []*AdaptedKernel
					var behind []*PlanesKernel
					for range copies {
						p := Problem{Type: graph.BF16, X: g.Noise(2 * c.m * shape.k), Rows: c.m, K: shape.k, Gated: shape.gated}
						for i, n := range shape.n {
							w := Weight{Y: g.Poisoned(2 * c.m * n), N: n, Delta: g.Noise(2 * c.m * n), B: AdapterB{At: g.Noise(2 * n * 16 * c.of), Slots: c.of, Passes: 1}}
							if shape.gated && i == 1 {
								p.Weights[0].Delta2, p.Weights[0].B2 = w.Delta, w.B
								break
							}
							if w.W = g.Noise(2 * n * shape.k); shape.gated {
								w.W = g.Noise(4 * n * shape.k)
							}
							p.Weights = append(p.Weights, w)
						}
						k, err := New(g.Loader, p, sums)
						g.Must(err)
						a, err := NewAdapted(g.Loader, p, hidden, sums)
						g.Must(err)
						h, err := NewPlanes(g.Loader, p, planes, sums)
						g.Must(err)
						p.Deltas = true
						d, err := New(g.Loader, p, sums)
						g.Must(err)
						plain, deltas, adapted, behind = append(plain, k), append(deltas, d), append(adapted, a), append(behind, h)
					}
					alone := g.Time(func(run int) error { return plain[run%copies].Launch(g.Stream, c.m) })
					added := g.Time(func(run int) error { return deltas[run%copies].LaunchDeltas(g.Stream, c.m, at) })
					further := g.Time(func(run int) error { return adapted[run%copies].Launch(g.Stream, c.m, tiles, 1) })
					fmt.Printf("%-8s m %5d, %3d adapters: %8.1f µs alone, %8.1f added in the epilogue, %8.1f as tiles (%.1f more; bytes of B %.1f)", shape.name, c.m, c.of,
						alone.Seconds()*1e6, added.Seconds()*1e6, further.Seconds()*1e6, (further-alone).Seconds()*1e6, float64(2*c.of*16*total)/bandwidth*1e6)
					if order := make([]int32, c.of); c.of <= MaxUnits {
						for i := range order {
							order[i] = int32(i)
						}
						at := g.Ints(order...)
						t := g.Time(func(run int) error { return behind[run%copies].Launch(g.Stream, c.m, at, c.of, 1) })
						fmt.Printf(", %8.1f as steps of all rows (pays: %v)", t.Seconds()*1e6, behind[0].Pays(c.of, 1))
					}
					fmt.Println()
				})
			}
		}
	})
}

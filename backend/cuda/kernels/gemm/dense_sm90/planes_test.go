package densesm90

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// planesCase is a problem whose rows have adapters.
type planesCase struct {
	m, k         int
	n            []int
	gated        bool
	ranks, slots int     // of each slot, and how many there are
	planes       []int32 // the slot of each; -1: none
	short        bool
}

// plane is the plane of a row, -1 for every fifth, which has no adapter.
func (c *planesCase) plane(row int) int {
	p := row * 7 % len(c.planes)
	if row%5 == 3 || c.planes[p] < 0 {
		return -1
	}
	return p
}

// TestPlanes: what adapters add as further steps is B h of each row's own adapter, through every kernel. Slots that no plane has are full of NaNs, as is what lies
// between, and planes have room for more rows than there are.
func TestPlanes(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if g.Ctx.Arch() != 90 {
			t.Skip("these kernels are Hopper's; this GPU is another")
		}
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 256)))
		for _, c := range []planesCase{
			{m: 1, k: 64, n: []int{64}, ranks: 16, slots: 1, planes: []int32{0}, short: true},
			{m: 16, k: 4096, n: []int{264}, ranks: 16, slots: 3, planes: []int32{2, 0}, short: true},
			{m: 13, k: 1000, n: []int{512, 128, 128}, ranks: 8, slots: 4, planes: []int32{3, 1, 0, -1}},
			{m: 20, k: 640, n: []int{136}, ranks: 40, slots: 5, planes: []int32{4, 1, 2}, short: true},
			{m: 60, k: 512, n: []int{768, 256, 256}, ranks: 16, slots: 9, planes: []int32{8, 7, 6, 5, 4, 3, 1, 0}, short: true},
			{m: 100, k: 320, n: []int{1000}, ranks: 24, slots: 2, planes: []int32{1}, short: true},
			{m: 200, k: 448, n: []int{520}, ranks: 16, slots: 6, planes: []int32{5, 1, 3, 2, -1, -1, -1, -1}, short: true},
			{m: 300, k: 576, n: []int{640}, ranks: 64, slots: 2, planes: []int32{1, 0}, short: true},
			{m: 256, k: 1000, n: []int{512, 256}, ranks: 16, slots: 20, planes: []int32{19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4}, short: true},
			{m: 1300, k: 200, n: []int{1536, 512, 512}, ranks: 16, slots: 4, planes: []int32{2, 0, 3}},
			{m: 5, k: 256, n: []int{200, 200}, gated: true, ranks: 16, slots: 2, planes: []int32{1}, short: true},
			{m: 20, k: 128, n: []int{136, 136}, gated: true, ranks: 16, slots: 5, planes: []int32{3, 0, 4}, short: true},
			{m: 40, k: 320, n: []int{704, 704}, gated: true, ranks: 8, slots: 3, planes: []int32{2, 1}, short: true},
			{m: 130, k: 192, n: []int{344, 344}, gated: true, ranks: 40, slots: 3, planes: []int32{0, 2, -1, -1}, short: true},
			{m: 250, k: 448, n: []int{1024, 1024}, gated: true, ranks: 16, slots: 12, planes: []int32{11, 9, 7, 5, 3, 1, 0, -1}, short: true},
			{m: 1300, k: 136, n: []int{1280, 1280}, gated: true, ranks: 16, slots: 2, planes: []int32{0, 1}},
		} {
			if testing.Short() && !c.short {
				continue
			}
			name := fmt.Sprintf("m %d, k %d, n %v, gated %v, rank %d, planes %v", c.m, c.k, c.n, c.gated, c.ranks, c.planes)
			g.Sub(name, func(g *gputest.GPU) { c.check(g, name, sums) })
		}
	})
}

// check compares the problem's results with those in float64.
func (c *planesCase) check(g *gputest.GPU, name string, sums driver.Ptr) {
	passes, rows := (c.ranks+unitRanks-1)/unitRanks, c.m+24
	x := g.Random(c.m*c.k, 1)
	p := Problem{Type: graph.BF16, X: g.BF16(x), Rows: c.m, K: c.k, Gated: c.gated}
	sides := 1
	if c.gated {
		sides = 2
	}
	steps := (sides*len(c.planes)*passes + stepUnits - 1) / stepUnits
	h := make([]float32, MaxTargets*MaxUnits*rows*unitRanks)
	var want [][]float64
	for i, n := range c.n {
		w := g.Random(n*c.k, 1/math.Sqrt(float64(c.k)))
		one := Weight{W: g.BF16(w), Y: g.Poisoned(2 * c.m * n), N: n}
		y := product(x, w, nil, c.m, n, c.k)
		stride := (passes + 1) * n * unitRanks
		all := make([]float32, c.slots*stride)
		for j := range all {
			all[j] = float32(math.NaN())
		}
		for at, slot := range c.planes {
			if slot < 0 {
				continue
			}
			b := g.Random(n*passes*unitRanks, 1)
			copy(all[int(slot)*stride:], b)
			for row := range c.m {
				if c.plane(row) != at {
					continue
				}
				for r := range c.ranks {
					v := g.Random(1, 1)[0]
					unit := (at*passes+r/unitRanks)*sides + i%sides
					h[((i/sides*steps+unit/stepUnits)*rows+row)*depth+unit%stepUnits*unitRanks+r%unitRanks] = v
					for o := range n {
						y[row*n+o] += float64(v) * float64(b[(r/unitRanks*n+o)*unitRanks+r%unitRanks])
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
	kernel, err := NewPlanes(g.Loader, p, Planes{At: g.BF16(h), Rows: rows}, sums)
	g.Must(err)
	slots := g.Ints(c.planes...)
	runTwice(g, name, &p, want, func() error { return kernel.Launch(g.Stream, c.m, slots, len(c.planes), passes) })
}

// BenchmarkPlanes is the shapes of Llama-3.1-8B with adapters of rank 16: the product alone, with what is added in its epilogue, and with further steps.
func BenchmarkPlanes(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 8192)))
		for _, shape := range []struct {
			name  string
			k     int
			n     []int
			gated bool
		}{{"qkv", 4096, []int{4096, 1024, 1024}, false}, {"o", 4096, []int{4096}, false}, {"gate-up", 4096, []int{14336, 14336}, true}, {"down", 14336, []int{4096}, false}} {
			for _, c := range []struct{ m, planes int }{{16, 16}, {64, 16}, {256, 1}, {256, 16}, {512, 1}, {2048, 1}} {
				g.Scope(func() {
					total := 0
					for _, n := range shape.n {
						total += n
					}
					copies := max(1, 256<<20/(total*shape.k*2)+1)
					planes := Planes{Rows: c.m}
					planes.At = g.Noise(int(planes.Bytes()))
					slots, places := make([]int32, c.planes), make([]int32, c.m)
					for i := range slots {
						slots[i] = int32(i)
					}
					at, order := g.Ints(places...), g.Ints(slots...)
					var plain, deltas []*Kernel
					var behind []*PlanesKernel
					for range copies {
						p := Problem{Type: graph.BF16, X: g.Noise(2 * c.m * shape.k), Rows: c.m, K: shape.k, Gated: shape.gated}
						for i, n := range shape.n {
							w := Weight{Y: g.Poisoned(2 * c.m * n), N: n, Delta: g.Noise(2 * c.m * n), B: AdapterB{At: g.Noise(2 * n * 16 * c.planes), Slots: c.planes, Passes: 1}}
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
						h, err := NewPlanes(g.Loader, p, planes, sums)
						g.Must(err)
						p.Deltas = true
						d, err := New(g.Loader, p, sums)
						g.Must(err)
						plain, deltas, behind = append(plain, k), append(deltas, d), append(behind, h)
					}
					alone := g.Time(func(run int) error { return plain[run%copies].Launch(g.Stream, c.m) })
					added := g.Time(func(run int) error { return deltas[run%copies].LaunchDeltas(g.Stream, c.m, at) })
					further := g.Time(func(run int) error { return behind[run%copies].Launch(g.Stream, c.m, order, c.planes, 1) })
					fmt.Printf("%-8s m %5d, %2d adapters: %8.1f µs alone, %8.1f added in the epilogue, %8.1f as steps (pays: %v)\n", shape.name, c.m, c.planes,
						alone.Seconds()*1e6, added.Seconds()*1e6, further.Seconds()*1e6, behind[0].Pays(c.planes, 1))
				})
			}
		}
	})
}

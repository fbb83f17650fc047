package skinny

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
)

// adaptedProblem is a skinny problem whose rows have adapters, on the device.
type adaptedProblem struct {
	m, k  int
	n     []int
	gated bool
	ranks []int // of each slot; 0: it has no product
	rows  []int // the slot of each row; -1: it has none
	spare int   // tiles without rows
}

// adapterMatrices is what a slot has for a part.
type adapterMatrices struct {
	a, b  []float32
	scale float32
}

// slotTable is a table of lora.Slot with random matrices, and where their B are.
func slotTable(g *gputest.GPU, ranks []int, n, k int) (driver.Ptr, SlotsB, []adapterMatrices) {
	var table []byte
	var all []adapterMatrices
	stride := (slices.Max(ranks) + 15) / 16 * 16 * n
	bs := make([]float32, len(ranks)*stride)
	for i, r := range ranks {
		m := adapterMatrices{a: g.Random(r*k, 1/math.Sqrt(float64(k))), b: g.Random(n*r, 1), scale: 0.5 + float32(i)/4}
		s := lora.Slot{Rank: int32(r), Scale: m.scale}
		for at, v := range m.b {
			row, rank := at/r, at%r
			bs[i*stride+(rank/16*n+row)*16+rank%16] = v
		}
		if r > 0 {
			s.A = g.BF16(m.a)
		}
		table, all = append(table, lora.EncodeSlot(&s)...), append(all, m)
	}
	return g.Bytes(table), SlotsB{g.BF16(bs), int64(stride)}, all
}

// make puts a problem on the device, with what it comes to.
func (c *adaptedProblem) make(g *gputest.GPU) (p AdaptedParams, want [][]float64) {
	x := g.Random(c.m*c.k, 1)
	p = AdaptedParams{Params: Params{X: g.BF16(x), M: int32(c.m), K: int32(c.k), Parts: int32(len(c.n))}}
	p.H, p.Arrived = g.Poisoned(HiddenBytes), g.Zeros(4)
	var tiles, places []int32
	var scales []float32
	places = make([]int32, c.m)
	most := 8
	for slot, r := range c.ranks {
		most = max(most, r)
		first := len(scales)
		for row, s := range c.rows {
			if s == slot {
				places[row] = int32(len(tiles)/4*lora.TileRows + len(scales) - first)
				scales = append(scales, 1-float32(row)/16)
			}
		}
		if n := len(scales) - first; n > 0 {
			tiles = append(tiles, int32(slot), int32(first), int32(n), 0)
		}
	}
	by := make([]float32, c.m)
	for row, s := range c.rows {
		if s < 0 {
			places[row] = -1
			continue
		}
		by[row] = 1 - float32(row)/16
	}
	tiles = append(tiles, make([]int32, 4*c.spare)...)
	rowSlots := make([]int32, c.m)
	for row, s := range c.rows {
		rowSlots[row] = int32(s)
	}
	p.Tiles, p.Places, p.Scales, p.Count, p.Passes = g.Ints(tiles...), g.Ints(places...), g.F32(append(scales, 0)), int32(len(tiles)/4), int32((most+15)/16)
	p.RowSlots = g.Ints(rowSlots...)
	var halves [][]float32
	for i, n := range c.n {
		w, bias := g.Random(n*c.k, 1/math.Sqrt(float64(c.k))), g.Random(n, 1)
		p.Part[i] = Part{W: g.BF16(w), Bias: g.F32(bias), Y: g.Room(graph.BF16, c.m*n), N: int32(n)}
		var slots []adapterMatrices
		p.Slots[i], p.B[i], slots = slotTable(g, c.ranks, n, c.k)
		y := make([]float64, c.m*n)
		for j := range y {
			row, o := j/n, j%n
			y[j] = dot(x[row*c.k:(row+1)*c.k], w[o*c.k:(o+1)*c.k]) + float64(bias[o])
			if s := c.rows[row]; s >= 0 {
				for r := range c.ranks[s] {
					y[j] += float64(by[row]*slots[s].scale) * float64(slots[s].b[o*c.ranks[s]+r]) * dot(x[row*c.k:(row+1)*c.k], slots[s].a[r*c.k:(r+1)*c.k])
				}
			}
		}
		want, halves = append(want, y), append(halves, w)
	}
	if c.gated {
		p.Parts, p.Part[0].W = 1, g.BF16(interleave(halves[0], halves[1], c.n[0], c.k))
		for i, v := range want[0] {
			want[0][i] = v / (1 + math.Exp(-v)) * want[1][i]
		}
		want = want[:1]
	}
	return p, want
}

// TestAdapted runs each problem three times: what blocks hand to one another must be empty again.
func TestAdapted(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []adaptedProblem{
			{m: 1, k: 64, n: []int{64}, ranks: []int{16}, rows: []int{0}},
			{m: 1, k: 4096, n: []int{512, 128, 120}, ranks: []int{8, 16}, rows: []int{1}, spare: 1},
			{m: 3, k: 96, n: []int{320}, ranks: []int{40, 16, 0}, rows: []int{2, -1, 0}, spare: 1},
			{m: 2, k: 64, n: []int{4304}, ranks: []int{16, 64}, rows: []int{1, 0}}, // enough for blocks of 256 threads
			{m: 8, k: 1024, n: []int{4096, 1024, 1024}, ranks: []int{16, 16, 16, 16, 16, 16, 16, 16}, rows: []int{7, 6, 5, 4, 3, 2, 1, 0}},
			{m: 8, k: 14336, n: []int{4096}, ranks: []int{16, 24}, rows: []int{0, 1, 0, -1, 1, 0, 1, 0}},
			{m: 1, k: 256, n: []int{200, 200}, gated: true, ranks: []int{16}, rows: []int{0}},
			{m: 5, k: 320, n: []int{704, 704}, gated: true, ranks: []int{16, 48, 8}, rows: []int{2, 1, -1, 0, 1}, spare: 1},
			{m: 8, k: 4096, n: []int{14336, 14336}, gated: true, ranks: []int{16, 16}, rows: []int{0, 0, 0, 1, 1, 1, 0, -1}},
		} {
			name := fmt.Sprintf("m %d, k %d, n %v, gated %v, ranks %v", c.m, c.k, c.n, c.gated, c.ranks)
			g.Sub(name, func(g *gputest.GPU) {
				p, want := c.make(g)
				k, err := NewAdapted(g.Loader, c.gated)
				g.Must(err)
				for range 3 {
					g.Must(k.Launch(g.Stream, &p))
					for i, y := range want {
						g.Near(name, g.ReadBF16(p.Part[i].Y, len(y)), y, 8e-3)
						g.Must(g.Stream.Fill(p.Part[i].Y, 0xff, int64(2*len(y))))
					}
				}
			})
		}
	})
}

// BenchmarkAdapted is the shapes of Llama-3.1-8B with an adapter of rank 16, beside the same product without it.
func BenchmarkAdapted(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, shape := range []struct {
			name  string
			k     int
			n     []int
			gated bool
		}{{"qkv", 4096, []int{4096, 1024, 1024}, false}, {"o", 4096, []int{4096}, false}, {"gate-up", 4096, []int{14336, 14336}, true}, {"down", 14336, []int{4096}, false}} {
			total := 0
			for _, n := range shape.n {
				total += n
			}
			copies := max(1, 256<<20/(total*shape.k*2)+1)
			for _, m := range []int{1, 8} {
				g.Scope(func() {
					var set []AdaptedParams
					table, bs, _ := slotTable(g, []int{16}, 14336, shape.k)
					h, arrived := g.Poisoned(HiddenBytes), g.Zeros(4)
					for range copies {
						p := AdaptedParams{Params: Params{X: g.Noise(2 * m * shape.k), M: int32(m), K: int32(shape.k), Parts: int32(len(shape.n))}}
						for i, n := range shape.n {
							p.Part[i] = Part{W: g.Noise(2 * n * shape.k), Y: g.Poisoned(2 * m * n), N: int32(n)}
							p.Slots[i], p.B[i] = table, bs
						}
						if shape.gated {
							p.Parts, p.Part[0].W = 1, g.Noise(2*total*shape.k)
						}
						places, scales := make([]int32, m), make([]float32, m)
						for i := range places {
							places[i], scales[i] = int32(i), 1
						}
						p.Tiles, p.Places, p.Scales, p.H, p.Arrived, p.Count, p.Passes = g.Ints(0, 0, int32(m), 0), g.Ints(places...), g.F32(scales), h, arrived, 1, 1
						p.RowSlots = g.Ints(make([]int32, m)...)
						set = append(set, p)
					}
					adapted, err := NewAdapted(g.Loader, shape.gated)
					g.Must(err)
					plain, err := New(g.Loader, graph.BF16, shape.gated)
					g.Must(err)
					chosen := adapted.variant(&set[0].Params)
					without := g.Time(func(run int) error { return plain.Launch(g.Stream, &set[run%copies].Params) })
					all := adapted.variants
					for _, v := range all {
						v.few = false // for no weights too many
						adapted.variants = []variant{v}
						with := g.Time(func(run int) error { return adapted.Launch(g.Stream, &set[run%copies]) })
						fmt.Printf("adapted %-8s m %3d  %8.1f µs, without %8.1f µs; %s, chosen: %v\n", shape.name, m, with.Seconds()*1e6, without.Seconds()*1e6, v.name, v.name == chosen.name)
					}
					adapted.variants = all
				})
			}
		}
	})
}

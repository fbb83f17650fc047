package densesm90

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// product is x [m, k] × w [n, k]ᵀ + bias in float64.
func product(x, w, bias []float32, m, n, k int) []float64 {
	y := make([]float64, m*n)
	for i := range m {
		for j := range n {
			var s float64
			for c := range k {
				s += float64(x[i*k+c]) * float64(w[j*k+c])
			}
			if bias != nil {
				s += float64(bias[j])
			}
			y[i*n+j] = s
		}
	}
	return y
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// TestAgainstPlainGo: with -short, as the sanitizer has it, one problem for each kernel, and for each kind of schedule.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if g.Ctx.Arch() != 90 {
			t.Skip("these kernels are Hopper's; this GPU is another")
		}
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 256)))
		for _, c := range []struct {
			m, k  int
			n     []int
			gated bool
			bias  bool
			short bool
		}{
			{m: 1, k: 64, n: []int{64}, short: true}, {m: 3, k: 72, n: []int{320}, bias: true}, {m: 8, k: 4096, n: []int{264}},
			{m: 13, k: 1000, n: []int{512, 128, 128}, short: true}, {m: 17, k: 640, n: []int{136}, bias: true, short: true}, {m: 33, k: 2048, n: []int{384}, short: true},
			{m: 64, k: 512, n: []int{768, 256, 256}, bias: true}, {m: 100, k: 320, n: []int{1000}, short: true}, {m: 200, k: 448, n: []int{520}, bias: true, short: true},
			{m: 300, k: 576, n: []int{640}}, {m: 2100, k: 128, n: []int{256}, bias: true, short: true},
			{m: 5, k: 256, n: []int{200, 200}, gated: true, short: true}, {m: 12, k: 128, n: []int{136, 136}, gated: true, short: true},
			{m: 20, k: 128, n: []int{136, 136}, gated: true, short: true}, {m: 100, k: 128, n: []int{136, 136}, gated: true, short: true},
			{m: 40, k: 320, n: []int{704, 704}, gated: true, bias: true, short: true},
			{m: 130, k: 192, n: []int{344, 344}, gated: true, short: true}, {m: 700, k: 128, n: []int{448, 448}, gated: true, short: true},
			// a stream of pairs, a stream before whole tiles, and enough tiles for pairs without one
			{m: 256, k: 1000, n: []int{512, 256}, bias: true, short: true}, {m: 250, k: 448, n: []int{1024, 1024}, gated: true}, {m: 1200, k: 320, n: []int{4096}, bias: true},
			{m: 16, k: 4096, n: []int{2560}},                                                                  // stream-K with switch costs, since clusters share tiles with several others
			{m: 300, k: 72, n: []int{8192, 4096, 32, 40}, bias: true}, {m: 1030, k: 64, n: []int{4096 + 128}}, // pairs of which one tile is not there
			{m: 2600, k: 72, n: []int{2560}, bias: true, short: true}, {m: 1300, k: 200, n: []int{1536, 512, 512}},
			{m: 1300, k: 136, n: []int{1280, 1280}, gated: true, bias: true, short: true},
		} {
			if testing.Short() && !c.short {
				continue
			}
			name := fmt.Sprintf("m %d, k %d, n %v, gated %v, bias %v", c.m, c.k, c.n, c.gated, c.bias)
			for _, deltas := range []bool{false, true} {
				if deltas && len(c.n) > 3 {
					continue
				}
				g.Sub(fmt.Sprintf("%s, deltas %v", name, deltas), func(g *gputest.GPU) { check(g, name, c.m, c.k, c.n, c.gated, c.bias, deltas, sums) })
			}
		}
	})
}

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "gemm/dense_sm90/delta", map[string]uintptr{"delta_": unsafe.Sizeof(deltaParams{})})
	gputest.Mirrors(t, "gemm/dense_sm90/sparse", map[string]uintptr{"sparse_": unsafe.Sizeof(sparseParams{})})
	gputest.Mirrors(t, "gemm/dense_sm90/planes", map[string]uintptr{"planes_": unsafe.Sizeof(planesParams{})})
	gputest.Mirrors(t, "gemm/dense_sm90/adapted", map[string]uintptr{"adapted_": unsafe.Sizeof(adaptedParams{})})
}

// check runs one problem twice, so that the scratch is seen to be empty again after a launch. With deltas every third row has none, and poison
// where they would be.
func check(g *gputest.GPU, name string, m, k int, ns []int, gated, biased, deltas bool, sums driver.Ptr) {
	x := g.Random(m*k, 1)
	p := Problem{Type: graph.BF16, X: g.BF16(x), Rows: m, K: k, Gated: gated, Deltas: deltas}
	var want [][]float64
	places := make([]int32, m)
	for i := range places {
		places[i] = int32(i)
		if i%3 == 1 {
			places[i] = -1
		}
	}
	for _, n := range ns {
		w := g.Random(n*k, 1/math.Sqrt(float64(k)))
		one := Weight{W: g.BF16(w), Y: g.Poisoned(2 * m * n), N: n}
		var bias []float32
		if biased {
			bias = g.Random(n, 1)
			one.Bias = g.F32(bias)
		}
		y := product(x, w, bias, m, n, k)
		if deltas {
			delta := g.Random(m*n, 1)
			for i := range delta {
				if places[i/n] < 0 {
					delta[i] = float32(math.NaN())
				} else {
					y[i] += float64(delta[i])
				}
			}
			one.Delta = g.BF16(delta)
		}
		p.Weights = append(p.Weights, one)
		want = append(want, y)
	}
	if gated {
		for i := range want[0] {
			want[0][i] = silu(want[0][i]) * want[1][i]
		}
		up, interleaved := p.Weights[1], g.Poisoned(2*2*ns[0]*k)
		g.Must(Interleave(g.Loader, g.Stream, p.Weights[0].W, up.W, interleaved, ns[0], k))
		p.Weights[0].W, p.Weights[0].Bias2, p.Weights[0].Delta2 = interleaved, up.Bias, up.Delta
		want, p.Weights = want[:1], p.Weights[:1]
	}
	kernel, err := New(g.Loader, p, sums)
	g.Must(err)
	at := g.Ints(places...)
	runTwice(g, name, &p, want, func() error {
		if deltas {
			return kernel.LaunchDeltas(g.Stream, m, at)
		}
		return kernel.Launch(g.Stream, m)
	})
}

// runTwice launches and compares, twice, so that the scratch is seen to be empty again after a launch.
func runTwice(g *gputest.GPU, name string, p *Problem, want [][]float64, launch func() error) {
	for range 2 {
		g.Must(launch())
		for i, y := range want {
			g.Near(name, g.ReadBF16(p.Weights[i].Y, len(y)), y, 6e-3)
			g.Must(g.Stream.Fill(p.Weights[i].Y, 0xff, int64(2*len(y))))
		}
	}
}

// BenchmarkLinear is the shapes of Llama-3.1-8B. Weights rotate through more than the L2 cache.
func BenchmarkLinear(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		sums := g.Poisoned(int(PartialBytes(g.Loader.SMs(), 8192)))
		for _, shape := range []struct {
			name  string
			k     int
			n     []int
			gated bool
		}{
			{"qkv", 4096, []int{4096, 1024, 1024}, false}, {"o", 4096, []int{4096}, false},
			{"gate-up", 4096, []int{14336, 14336}, true}, {"down", 14336, []int{4096}, false}, {"head", 4096, []int{128256}, false},
		} {
			var total int
			for _, n := range shape.n {
				total += n
			}
			copies := max(1, 256<<20/(total*shape.k*2)+1)
			for _, m := range []int{16, 32, 64, 128, 256, 512, 768, 1280, 2048, 8192} {
				if shape.name == "head" && m > 256 {
					continue
				}
				mark := func() {
					var set []*Kernel
					for range copies {
						p := Problem{Type: graph.BF16, X: g.Noise(2 * m * shape.k), Rows: m, K: shape.k, Gated: shape.gated}
						for _, n := range shape.n {
							if shape.gated {
								p.Weights = []Weight{{W: g.Noise(4 * n * shape.k), Y: g.Poisoned(2 * m * n), N: n}}
								break
							}
							p.Weights = append(p.Weights, Weight{W: g.Noise(2 * n * shape.k), Y: g.Poisoned(2 * m * n), N: n})
						}
						k, err := New(g.Loader, p, sums)
						g.Must(err)
						set = append(set, k)
					}
					d := g.Time(func(run int) error { return set[run%copies].Launch(g.Stream, m) })
					bytes, flops := 2*float64(total)*float64(shape.k)+2*float64(m)*float64(shape.k+total), 2*float64(m)*float64(total)*float64(shape.k)
					fmt.Printf("linear %-8s m %5d  %9.1f µs  %6.2f TB/s  %6.1f TFLOP/s\n", shape.name, m, d.Seconds()*1e6, bytes/d.Seconds()/1e12, flops/d.Seconds()/1e12)
				}
				g.Scope(mark)
			}
		}
	})
}

// TestSchedule needs no GPU: every cluster has a step, schedules of whole tiles assign equally many, no tile is split too often, and a
// stream is only where it costs less than whole tiles.
func TestSchedule(t *testing.T) {
	for _, most := range []int{66, 132} {
		for _, w := range widths {
			for tiles := int32(1); tiles < 1200; tiles++ {
				for _, steps := range []int32{1, 3, 64, 224} {
					d := newSchedule(most, tiles, steps, w.step, w.fixup)
					n, whole := int32(d.clusters), float64((tiles+int32(most)-1)/int32(most)*steps)*w.step
					switch {
					case n < 1 || d.clusters > most || d.streamTiles > tiles || d.cost > whole:
						t.Fatalf("%d tiles of %d steps: %d clusters, %d stream-K tiles that costs %g, and whole tiles %g", tiles, steps, n, d.streamTiles, d.cost, whole)
					case d.streamTiles == 0 && n != min(tiles, int32(most)):
						t.Fatalf("%d tiles of %d steps: %d clusters", tiles, steps, n)
					case d.streamTiles > 0 && (d.streamTiles*steps < n || (tiles-d.streamTiles)%n != 0 || n > mostSplits*d.streamTiles):
						t.Fatalf("%d tiles of %d steps: %d stream-K tiles for %d clusters", tiles, steps, d.streamTiles, n)
					}
				}
			}
		}
	}
	// What was faster when it was measured; docs/lore.md, 82, has some of it.
	for tiles, want := range map[int32]int32{16: 16, 24: 24, 32: 32, 48: 0, 72: 72, 80: 14, 112: 0, 128: 0} {
		if d := newSchedule(66, tiles, 64, 1.8, 22); d.streamTiles != want {
			t.Errorf("%d pairs of tiles of 256 rows: %d stream-K tiles, want %d", tiles, d.streamTiles, want)
		}
	}
}

package packed

import (
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/quant"
)

// upload puts a weight on the device, packed.
func upload(g *gputest.GPU, w quant.Tensor) driver.Ptr {
	n, bytes := Panels(w)
	panels := make([]byte, n*bytes)
	Pack(panels, w, 0, n)
	p := g.Poisoned(len(panels))
	g.Must(g.Stream.Upload(p, panels))
	g.Must(g.Stream.Synchronize())
	return p
}

// TestMirrors holds parameters in Go and in C++ together.
func TestMirrors(t *testing.T) {
	for _, lt := range layouts {
		gemvParams := unsafe.Sizeof(gemvParams{})
		gputest.Mirrors(t, lt.module, map[string]uintptr{
			"gemv": gemvParams, "dequantise": unsafe.Sizeof(DequantiseParams{}),
			"gemm_mma_sync": unsafe.Sizeof(gemmSM80Params{}), "gemm": unsafe.Sizeof(gemmParams{}),
		})
	}
}

func dot(x, w []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(w[i])
	}
	return s
}

// plainRows is m rows of x times a weight, and a bias.
func plainRows(x, w, bias []float32, m, k int) []float64 {
	n := len(bias)
	y := make([]float64, m*n)
	for j := range y {
		y[j] = dot(x[j/n*k:(j/n+1)*k], w[j%n*k:(j%n+1)*k]) + float64(bias[j%n])
	}
	return y
}

// gate is silu of the first of two results, times the second.
func gate(y [][]float64) [][]float64 {
	for i, v := range y[0] {
		y[0][i] = v / (1 + math.Exp(-v)) * y[1][i]
	}
	return y[:1]
}

// archs runs f with the kernels of the GPU and with those of the oldest.
func archs(g *gputest.GPU, f func(what string)) {
	f("own")
	loader, overlap := g.Loader, g.Stream.Overlap
	g.Loader, g.Stream.Overlap = kernels.NewLoader(g.Ctx, 80), false
	f("sm_80")
	g.Must(g.Stream.Synchronize())
	g.Must(g.Loader.Close())
	g.Loader, g.Stream.Overlap = loader, overlap
}

// eachFormat runs f for each format with each of those kernels, as tests of their own.
func eachFormat(g *gputest.GPU, do func(g *gputest.GPU, arch string, f quant.Format)) {
	archs(g, func(arch string) {
		for _, f := range formats() {
			g.Sub(fmt.Sprint(arch, "/", f), func(g *gputest.GPU) { do(g, arch, f) })
		}
	})
}

// TestAgainstPlainGo: with -short, as the sanitizer has it, problems that launch each kernel once.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		eachFormat(g, func(g *gputest.GPU, arch string, f quant.Format) {
			for _, c := range []struct {
				m, k  int
				n     []int
				gated bool
				short bool
			}{
				{m: 1, k: 256, n: []int{5}, short: true}, {m: 2, k: 512, n: []int{2210}, short: true}, {m: 3, k: 768, n: []int{321}, short: true}, {m: 4, k: 14336, n: []int{144}}, {m: 4, k: 256, n: []int{4200}}, {m: 2, k: 1024, n: []int{512, 128, 120}}, {m: 4, k: 256, n: []int{9000}}, {m: 1, k: 14336, n: []int{48}}, {m: 8, k: 4096, n: []int{50}, short: true}, {m: 1, k: 1024, n: []int{512, 128, 120}},
				{m: 7, k: 14336, n: []int{48}}, {m: 9, k: 1024, n: []int{77, 5}}, {m: 16, k: 768, n: []int{136}, short: true}, {m: 31, k: 2048, n: []int{40, 77}},
				{m: 5, k: 256, n: []int{200, 200}, gated: true, short: true}, {m: 16, k: 1280, n: []int{88, 88}, gated: true, short: true}, {m: 1, k: 256, n: []int{4504, 4504}, gated: true, short: true}, {m: 2, k: 256, n: []int{2504, 2504}, gated: true, short: true}, {m: 4, k: 256, n: []int{4504, 4504}, gated: true, short: true},
				{m: 32, k: 1280, n: []int{200, 200}, gated: true, short: true}, {m: 64, k: 2048, n: []int{256, 136}}, {m: 33, k: 512, n: []int{512}, short: true}, {m: 100, k: 1024, n: []int{264}, short: true}, {m: 250, k: 768, n: []int{136}}, {m: 12, k: 4096, n: []int{264, 136}}, {m: 600, k: 256, n: []int{136}, short: true},
			} {
				if !testing.Short() || c.short {
					one(g, arch, f, c.m, c.k, c.n, c.gated)
				}
			}
		})
	})
}

// parts makes random weights of n rows each, and what plain Go makes of them and of m rows of x.
func parts(g *gputest.GPU, f quant.Format, x []float32, m, k int, n []int, gated bool) (all []Part, want [][]float64) {
	for _, n := range n {
		w, plain := random(g, g.Rand, f, n, k)
		bias := g.Random(n, 1)
		all = append(all, Part{W: upload(g, w), Bias: g.F32(bias), Y: g.Poisoned(2 * m * n), N: n})
		want = append(want, plainRows(x, plain, bias, m, k))
	}
	if gated {
		want = gate(want)
	}
	return all, want
}

// scratch is what launches share.
func scratch(g *gputest.GPU) Scratch {
	pieces := int(densesm90.PartialBytes(g.Loader.SMs(), densesm90.MaxRows))
	return Scratch{Partial: g.Poisoned(pieces), SplitKSums: g.Poisoned(pieces), Arrived: g.Zeros(4 * MaxTiles), Squares: g.Poisoned(SquaresBytes)}
}

func one(g *gputest.GPU, arch string, f quant.Format, m, k int, n []int, gated bool, change ...func(*Kernel)) {
	x := g.Random(m*k, 1)
	p := Problem{X: g.BF16(x), Rows: m, K: k, Gated: gated}
	var want [][]float64
	p.Parts, want = parts(g, f, x, m, k, n, gated)
	kernel, err := New(g.Loader, f, p, scratch(g))
	g.Must(err)
	for _, c := range change {
		c(kernel)
	}
	for run := range 2 { // the second finds the counters as the first left them
		g.Must(kernel.Launch(g.Stream, m))
		for i, y := range want {
			g.Near(fmt.Sprintf("%s %s, m %d, k %d, n %v, gated %v, part %d, run %d", arch, f, m, k, n, gated, i, run), g.ReadBF16(p.Parts[i].Y, len(y)), y, 6e-3)
		}
	}
}

// TestClusters has two clusters of each size go through more tiles than they have places for other blocks' sums; with -short, as the sanitizer
// has it, with one width of tiles each, and one step of a tile for each block: racecheck does not end where blocks have more steps than stages
// (docs/lore.md, 121).
func TestClusters(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			t.Skip("only Hopper's kernels split tiles between the blocks of a cluster")
		}
		for splits := range 4 {
			two := func(k *Kernel) {
				k.gemm.alone = false
				for i := range k.gemm.widths {
					k.gemm.widths[i].clusters = make([]int, 4)
					k.gemm.widths[i].clusters[splits] = 2
				}
			}
			rows, k, n := []int{7, 16, 30}, 2304, 520
			if testing.Short() {
				rows, k, n = rows[splits%3:][:1], 256<<splits, 264
			}
			what := fmt.Sprint("clusters of ", 1<<splits, " blocks")
			g.Sub(what, func(g *gputest.GPU) {
				for _, m := range rows {
					one(g, what, quant.Q4_0, m, k, []int{n + 80, 264}, false, two)
					one(g, what, quant.Q4_0, m, k, []int{n, n}, true, two)
				}
			})
		}
	})
}

// TestGlobalSplitK has blocks that are no clusters exchange sums, of which more than a tile's at one time. With -short, as the sanitizer has it, of
// one number of rows.
func TestGlobalSplitK(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() || g.Ctx.MPS {
			t.Skip("blocks wait for each other only on Hopper, and where nothing else runs")
		}
		viaGlobal := func(k *Kernel) {
			for i := range k.gemm.widths {
				k.gemm.widths[i].clusters = make([]int, 4)
			}
		}
		rows := []int{7, 16, 30}
		if testing.Short() {
			rows = rows[:1]
		}
		for _, m := range rows {
			for _, k := range []int{512, 2304} { // two blocks, and four
				one(g, "blocks apart", quant.Q4_0, m, k, []int{600, 264}, false, viaGlobal)
				one(g, "blocks apart", quant.Q4_0, m, k, []int{520, 520}, true, viaGlobal)
			}
		}
	})
}

func TestOpen(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, f := range formats() {
			const n, k = 40, 768
			interleaved, want := g.Poisoned(2*2*n*k), make([]float64, 2*n*k)
			kernel, err := FindDequantise(g.Loader, f)
			g.Must(err)
			for second := range 2 {
				w, plain := random(g, g.Rand, f, n, k)
				y, exact := g.Poisoned(2*n*k), make([]float64, n*k)
				for i, x := range plain {
					row := i / k
					exact[i] = float64(x)
					want[(row/8*16+row%8+8*second)*k+i%k] = float64(x)
				}
				p := upload(g, w)
				g.Must(Dequantise(g.Stream, kernel, &DequantiseParams{W: p, Y: y, N: n, K: k}))
				g.Near(f.String(), g.ReadBF16(y, n*k), exact, 4e-3)
				g.Must(Dequantise(g.Stream, kernel, &DequantiseParams{W: p, Y: interleaved, N: n, K: k, Interleaved: 1, Second: int32(second)}))
			}
			g.Near(f.String()+" interleaved", g.ReadBF16(interleaved, 2*n*k), want, 4e-3)
		}
	})
}

// BenchmarkRows prints what the layers of Llama-3.1-8B take at few rows, weights rotating beyond the L2 cache.
func BenchmarkRows(b *testing.B) {
	for _, f := range formats() {
		if f == quant.Q4_1 || f == quant.F16_2_4 { // the kernels of Q4_K, and of BF16_2_4
			continue
		}
		b.Run(f.String(), func(b *testing.B) { gputest.Run(b, func(g *gputest.GPU) { benchmarkRows(g, f) }) })
	}
}

func benchmarkRows(g *gputest.GPU, f quant.Format) {
	bench := bench{GPU: g, weights: g.Noise(weightBytes), x: g.Noise(2 * mostRows * 14336), y: g.Poisoned(2 * mostRows * 128256),
		scratch: scratch(g)}
	for _, layer := range layers {
		fmt.Printf("%-5s %-7s", f, layer.name)
		for _, m := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, mostRows} {
			if m > 64 && layer.name == "head" {
				continue // only the last row of a prompt needs logits
			}
			d, bytes := bench.time(&layer, f, m)
			fmt.Printf("  %2d: %6.1f µs %4.2f TB/s", m, d.Seconds()*1e6, float64(bytes)/d.Seconds()/1e12)
		}
		fmt.Println()
	}
}

type layer struct {
	name  string
	n     []int
	k     int
	gated bool
}

var layers = []layer{
	{"qkv", []int{4096, 1024, 1024}, 4096, false}, {"o", []int{4096}, 4096, false}, {"gate-up", []int{14336, 14336}, 4096, true}, {"down", []int{4096}, 14336, false},
	{"head", []int{128256}, 4096, false},
}

const (
	weightBytes = 1200 << 20 // room for two copies of the largest layer in the widest format
	mostRows    = 1024       // that are measured
)

// bench is what all layers are timed with.
type bench struct {
	*gputest.GPU
	weights, x, y driver.Ptr
	scratch       Scratch
}

// time is what a launch takes, with the bytes of weights that it reads; copies of the layer lie one behind the other.
func (b *bench) time(l *layer, f quant.Format, m int) (time.Duration, int) {
	var set []*Kernel
	bytes, at := 0, 0
	for at+bytes <= weightBytes && len(set) < 40 {
		p, y := Problem{X: b.x, Rows: m, K: l.k, Gated: l.gated}, b.y
		from := at
		for _, n := range l.n {
			p.Parts = append(p.Parts, Part{W: b.weights + driver.Ptr(at), Y: y, N: n})
			at, y = at+tiles(n)*tileUnits(l.k)*unitBytes(f), y+driver.Ptr(2*m*n)
		}
		bytes = at - from
		k, err := New(b.Loader, f, p, b.scratch)
		b.Must(err)
		set = append(set, k)
	}
	const least = 8
	all := (least + len(set) - 1) / len(set) * len(set)
	graph, err := b.Stream.Capture(func() error { // the host is too slow for the smallest
		for i := range all {
			if err := set[i%len(set)].Launch(b.Stream, m); err != nil {
				return err
			}
		}
		return nil
	})
	b.Must(err)
	defer graph.Close()
	d := b.Time(func(int) error { return b.Stream.Replay(graph) })
	return d / time.Duration(all), bytes
}

// BenchmarkOpen prints what opening the gate of Llama-3.1-8B to bf16 takes.
func BenchmarkOpen(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		const n, k, copies = 14336, 4096, 4
		for _, f := range formats() {
			g.Scope(func() {
				bytes := tiles(n) * tileUnits(k) * unitBytes(f)
				w, y := g.Noise(copies*bytes), g.Poisoned(copies*2*n*k)
				kernel, err := FindDequantise(g.Loader, f)
				g.Must(err)
				d := g.Time(func(run int) error {
					i := run % copies
					return Dequantise(g.Stream, kernel, &DequantiseParams{W: w + driver.Ptr(i*bytes), Y: y + driver.Ptr(i*2*n*k), N: n, K: k})
				})
				fmt.Printf("%-5s %6.1f µs %4.2f TB/s\n", f, d.Seconds()*1e6, float64(bytes+2*n*k)/d.Seconds()/1e12)
			})
		}
	})
}

package packed

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/quant"
)

// upload puts a weight on the device, packed.
func upload(g *gputest.GPU, w quant.Tensor) driver.Ptr {
	n, bytes := Tiles(w)
	tiles := make([]byte, n*bytes)
	Pack(tiles, w, 0, n)
	p := g.Poisoned(len(tiles))
	g.Must(g.Stream.Upload(p, tiles))
	g.Must(g.Stream.Synchronize())
	return p
}

func dot(x, w []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(w[i])
	}
	return s
}

func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, f := range []quant.Format{quant.Q4_0} {
			for _, c := range []struct {
				m, k  int
				n     []int
				gated bool
			}{
				{m: 1, k: 32, n: []int{5}}, {m: 3, k: 96, n: []int{321}}, {m: 8, k: 4096, n: []int{50}}, {m: 1, k: 4096, n: []int{512, 128, 120}},
				{m: 9, k: 992, n: []int{77, 5}}, {m: 16, k: 640, n: []int{136}}, {m: 31, k: 2080, n: []int{40, 77}}, {m: 5, k: 256, n: []int{200, 200}, gated: true},
				{m: 16, k: 1344, n: []int{88, 88}, gated: true}, {m: 32, k: 1344, n: []int{88, 88}, gated: true},
			} {
				one(g, f, c.m, c.k, c.n, c.gated)
			}
		}
	})
}

func one(g *gputest.GPU, f quant.Format, m, k int, n []int, gated bool) {
	x := g.Random(m*k, 1)
	p := Params{X: g.BF16(x), M: int32(m), K: int32(k), Parts: int32(len(n))}
	var want [][]float64
	for i, n := range n {
		w, plain := random(g, g.Rand, f, n, k)
		bias := g.Random(n, 1)
		p.Part[i] = Part{W: upload(g, w), Bias: g.F32(bias), Y: g.Poisoned(2 * m * n), N: int32(n)}
		y := make([]float64, m*n)
		for j := range y {
			y[j] = dot(x[j/n*k:(j/n+1)*k], plain[j%n*k:(j%n+1)*k]) + float64(bias[j%n])
		}
		want = append(want, y)
	}
	if gated {
		for i, v := range want[0] {
			want[0][i] = v / (1 + math.Exp(-v)) * want[1][i]
		}
		want = want[:1]
	}
	kernel, err := New(g.Loader, f, gated)
	g.Must(err)
	g.Must(kernel.Launch(g.Stream, &p))
	for i, y := range want {
		g.Near(fmt.Sprintf("%s, m %d, k %d, n %v, gated %v, part %d", f, m, k, n, gated, i), g.ReadBF16(p.Part[i].Y, len(y)), y, 6e-3)
	}
}

func TestOpen(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, f := range []quant.Format{quant.Q4_0} {
			const n, k = 40, 288
			woven, want := g.Poisoned(2*2*n*k), make([]float64, 2*n*k)
			kernel, err := FindOpen(g.Loader, f)
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
				g.Must(Open(g.Stream, kernel, &Opened{W: p, Y: y, N: n, K: k}))
				g.Near(f.String(), g.ReadBF16(y, n*k), exact, 4e-3)
				g.Must(Open(g.Stream, kernel, &Opened{W: p, Y: woven, N: n, K: k, Woven: 1, Second: int32(second)}))
			}
			g.Near(f.String()+" woven", g.ReadBF16(woven, 2*n*k), want, 4e-3)
		}
	})
}

// BenchmarkRows prints what the layers of Llama-3.1-8B take at few rows, weights rotating beyond the L2 cache.
func BenchmarkRows(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, f := range []quant.Format{quant.Q4_0} {
			for _, shape := range []struct {
				name string
				n, k int
			}{{"qkv", 6144, 4096}, {"o", 4096, 4096}, {"up", 28672, 4096}, {"down", 4096, 14336}, {"head", 128256, 4096}} {
				bytes := tiles(shape.n) * tileUnits(shape.k) * unitBytes
				copies := max(2, 256<<20/bytes+1)
				for _, m := range []int{1, 8, 16, 32} {
					g.Scope(func() {
						var set []Params
						for range copies {
							p := Params{X: g.Noise(2 * m * shape.k), M: int32(m), K: int32(shape.k), Parts: 1}
							p.Part[0] = Part{W: g.Noise(bytes), Y: g.Poisoned(2 * m * shape.n), N: int32(shape.n)}
							set = append(set, p)
						}
						k, err := New(g.Loader, f, false)
						g.Must(err)
						d := g.Time(func(run int) error { return k.Launch(g.Stream, &set[run%copies]) })
						fmt.Printf("%s %-5s m %2d  %8.1f µs  %5.2f TB/s\n", f, shape.name, m, d.Seconds()*1e6, float64(bytes)/d.Seconds()/1e12)
					})
				}
			}
		}
	})
}

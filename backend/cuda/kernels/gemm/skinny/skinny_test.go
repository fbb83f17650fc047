package skinny

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "gemm/skinny/skinny", map[string]uintptr{"skinny": unsafe.Sizeof(Params{})})
	gputest.Mirrors(t, "gemm/skinny/adapted", map[string]uintptr{"adapted8": unsafe.Sizeof(AdaptedParams{})})
}

// interleave lays eight rows of a, then eight of b, and so on, into one matrix.
func interleave(a, b []float32, rows, k int) []float32 {
	var y []float32
	for r := 0; r < rows; r += 8 {
		y = append(append(y, a[r*k:(r+8)*k]...), b[r*k:(r+8)*k]...)
	}
	return y
}

func dot(x, w []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(w[i])
	}
	return s
}

func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []struct {
			m, k  int
			n     []int
			gated bool
		}{
			{m: 1, k: 64, n: []int{64}}, {m: 3, k: 72, n: []int{321}}, {m: 8, k: 4096, n: []int{50}}, {m: 1, k: 4096, n: []int{512, 128, 120}},
			{m: 2, k: 64, n: []int{4300}}, // enough for blocks of 256 threads
			{m: 2, k: 512, n: []int{512, 256, 32, 30}},
			{m: 9, k: 1000, n: []int{77, 5}}, {m: 16, k: 640, n: []int{136}}, {m: 5, k: 256, n: []int{200, 200}, gated: true}, {m: 8, k: 1336, n: []int{88, 88}, gated: true},
		} {
			name := fmt.Sprintf("m %d, k %d, n %v, gated %v", c.m, c.k, c.n, c.gated)
			x := g.Random(c.m*c.k, 1)
			p := Params{X: g.BF16(x), M: int32(c.m), K: int32(c.k), Parts: int32(len(c.n))}
			var want [][]float64
			var halves [][]float32
			for i, n := range c.n {
				w, bias := g.Random(n*c.k, 1/math.Sqrt(float64(c.k))), g.Random(n, 1)
				p.Part[i] = Part{W: g.BF16(w), Bias: g.F32(bias), Y: g.Room(graph.BF16, c.m*n), N: int32(n)}
				y := make([]float64, c.m*n)
				for j := range y {
					y[j] = dot(x[j/n*c.k:(j/n+1)*c.k], w[j%n*c.k:(j%n+1)*c.k]) + float64(bias[j%n])
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
			k, err := New(g.Loader, graph.BF16, c.gated)
			g.Must(err)
			g.Must(k.Launch(g.Stream, &p))
			for i, y := range want {
				g.Near(name, g.Take(name, graph.BF16, p.Part[i].Y, len(y)), y, 6e-3)
			}
		}
	})
}

// BenchmarkLinear is the shapes of Llama-3.1-8B, weights rotating through more than the L2 cache.
func BenchmarkLinear(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, shape := range []struct {
			name string
			k    int
			n    int
		}{{"qkv", 4096, 6144}, {"o", 4096, 4096}, {"up", 4096, 28672}, {"down", 14336, 4096}, {"head", 4096, 128256}} {
			copies := max(1, 256<<20/(shape.n*shape.k*2)+1)
			for _, m := range []int{1, 8, 16} {
				g.Scope(func() {
					var set []Params
					for range copies {
						p := Params{X: g.Noise(2 * m * shape.k), M: int32(m), K: int32(shape.k), Parts: 1}
						p.Part[0] = Part{W: g.Noise(2 * shape.n * shape.k), Y: g.Poisoned(2 * m * shape.n), N: int32(shape.n)}
						set = append(set, p)
					}
					k, err := New(g.Loader, graph.BF16, false)
					g.Must(err)
					report(g, shape.name, m, shape.n, shape.k, func(run int) error { return k.Launch(g.Stream, &set[run%copies]) })
				})
			}
		}
	})
}

func report(g *gputest.GPU, shape string, m, n, k int, f func(run int) error) {
	d := g.Time(f)
	bytes := 2 * (float64(n)*float64(k) + float64(m)*float64(n+k))
	fmt.Printf("skinny %-6s m %3d  %8.1f µs  %5.2f TB/s\n", shape, m, d.Seconds()*1e6, bytes/d.Seconds()/1e12)
}

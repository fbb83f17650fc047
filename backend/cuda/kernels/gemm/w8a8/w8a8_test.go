package w8a8

import (
	"fmt"
	"math"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm80 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm80"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// archs are the compute capabilities whose kernels are tested: the GPU's own (0), and the oldest.
var archs = []int{0, 80}

var types = []graph.Type{graph.F8, graph.I8}

// loader is that of the GPU, or one of older kernels.
func loader(g *gputest.GPU, arch int) *kernels.Loader {
	if arch == 0 {
		return g.Loader
	}
	l := kernels.NewLoader(g.Ctx, arch)
	g.Cleanup(func() { l.Close() })
	return l
}

// number is what a code counts.
func number(t graph.Type, code byte) float64 {
	if t == graph.F8 {
		return float64(quant.E4M3ToF32(code))
	}
	return float64(int8(code))
}

// code is x rounded.
func code(t graph.Type, x float32) byte {
	if t == graph.F8 {
		return quant.F32ToE4M3(x)
	}
	return byte(int8(math.RoundToEven(float64(x))))
}

func top(t graph.Type) float32 { return map[graph.Type]float32{graph.F8: 448, graph.I8: 127}[t] }

// matrix is random codes and scales on the device, with the numbers they stand for.
type matrix struct {
	codes, scales driver.Ptr
	x             []float64
}

func random(g *gputest.GPU, t graph.Type, rows, n int, size float64) matrix {
	codes, scales, m := make([]byte, rows*n), make([]float32, (rows+1)&^1), matrix{x: make([]float64, rows*n)}
	scales[len(scales)-1] = float32(math.NaN()) // read with an odd last one (densesm90.Problem.XScale), and used nowhere
	for r := range rows {
		scales[r] = float32(size * (0.5 + g.Rand.Float64()))
		for i := range n {
			c := code(t, max(-top(t), min(top(t), float32(g.Rand.NormFloat64())*top(t)/4)))
			codes[r*n+i], m.x[r*n+i] = c, number(t, c)*float64(scales[r])
		}
	}
	m.codes, m.scales = g.Bytes(codes), g.F32(scales)
	return m
}

// interleaved is eight rows of a, then eight of b, and so on, without scales.
func interleaved(g *gputest.GPU, a, b matrix, rows, n int) driver.Ptr {
	y := g.Poisoned(2 * rows * n)
	for r := 0; r < rows; r += 8 {
		for i, from := range []driver.Ptr{a.codes, b.codes} {
			g.Must(g.Stream.Copy(y+driver.Ptr((2*r+8*i)*n), from+driver.Ptr(r*n), int64(8*n)))
		}
	}
	return y
}

func product(x, w matrix, bias []float32, m, n, k int) []float64 {
	y := make([]float64, m*n)
	var rows errgroup.Group
	for i := range m {
		rows.Go(func() error {
			for j := range n {
				s := float64(bias[j])
				for c := range k {
					s += x.x[i*k+c] * w.x[j*k+c]
				}
				y[i*n+j] = s
			}
			return nil
		})
	}
	rows.Wait()
	return y
}

// shape is a product to test.
type shape struct {
	m, k  int
	n     []int
	gated bool
}

// problem is a shape with its data and what comes out.
type problem struct {
	shape
	t       graph.Type
	x       matrix
	weights []matrix
	codes   []driver.Ptr // of weights as the kernels want them
	bias    []driver.Ptr
	y       []driver.Ptr
	want    [][]float64
}

func newProblem(g *gputest.GPU, t graph.Type, s shape) *problem {
	p := &problem{shape: s, t: t, x: random(g, t, s.m, s.k, 1/float64(top(t)))}
	for _, n := range s.n {
		w, bias := random(g, t, n, s.k, 2/float64(top(t))/math.Sqrt(float64(s.k))), g.Random(n, 0.5)
		p.weights, p.bias, p.codes = append(p.weights, w), append(p.bias, g.F32(bias)), append(p.codes, w.codes)
		p.y, p.want = append(p.y, g.Poisoned(2*s.m*n)), append(p.want, product(p.x, w, bias, s.m, n, s.k))
	}
	if s.gated {
		for i, v := range p.want[0] {
			p.want[0][i] = v / (1 + math.Exp(-v)) * p.want[1][i]
		}
		p.want, p.codes = p.want[:1], []driver.Ptr{interleaved(g, p.weights[0], p.weights[1], s.n[0], s.k)}
	}
	return p
}

func (p *problem) compare(g *gputest.GPU, what string) {
	for i, want := range p.want {
		g.Near(fmt.Sprintf("%s %s %+v", what, p.t, p.shape), g.ReadBF16(p.y[i], len(want)), want, 6e-3)
		g.Must(g.Stream.Fill(p.y[i], 0xff, int64(2*len(want))))
	}
}

func (p *problem) wide() densesm90.Problem {
	q := densesm90.Problem{Type: p.t, X: p.x.codes, XScale: p.x.scales, Rows: p.m, K: p.k, Gated: p.gated}
	for i, c := range p.codes {
		q.Weights = append(q.Weights, densesm90.Weight{W: c, Bias: p.bias[i], Scale: p.weights[i].scales, Y: p.y[i], N: p.n[i]})
	}
	if p.gated {
		q.Weights[0].Bias2, q.Weights[0].Scale2 = p.bias[1], p.weights[1].scales
	}
	return q
}

func TestWide(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			t.Skip("these kernels are Hopper's; this GPU is another")
		}
		sums := g.Poisoned(int(densesm90.PartialBytes(g.Loader.SMs(), densesm90.MaxRows)))
		for _, s := range []shape{
			{m: 1, k: 128, n: []int{64}}, {m: 9, k: 144, n: []int{320}}, {m: 13, k: 2000, n: []int{512, 128, 128}}, {m: 17, k: 1280, n: []int{136}},
			{m: 33, k: 4096, n: []int{384}}, {m: 64, k: 1024, n: []int{768, 256, 256}}, {m: 100, k: 640, n: []int{1000}}, {m: 200, k: 896, n: []int{520}},
			{m: 300, k: 1152, n: []int{640}}, {m: 2100, k: 256, n: []int{256}}, {m: 2600, k: 144, n: []int{2560}}, {m: 1300, k: 400, n: []int{1536, 512, 512}},
			{m: 9, k: 512, n: []int{200, 200}, gated: true}, {m: 20, k: 128, n: []int{136, 136}, gated: true}, {m: 100, k: 128, n: []int{136, 136}, gated: true},
			{m: 40, k: 640, n: []int{704, 704}, gated: true}, {m: 130, k: 384, n: []int{344, 344}, gated: true},
			{m: 700, k: 256, n: []int{448, 448}, gated: true}, {m: 1300, k: 272, n: []int{1280, 1280}, gated: true},
		} {
			for _, typ := range types {
				g.Scope(func() {
					p := newProblem(g, typ, s)
					k, err := densesm90.New(g.Loader, p.wide(), sums)
					g.Must(err)
					for range 2 { // so that the scratch is seen to be empty again
						g.Must(k.Launch(g.Stream, s.m))
						p.compare(g, "gemm")
					}
				})
			}
		}
	})
}

func TestFew(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, arch := range archs {
			l := loader(g, arch)
			for _, s := range []shape{
				{m: 1, k: 128, n: []int{64}}, {m: 3, k: 144, n: []int{321}}, {m: 8, k: 4096, n: []int{50}}, {m: 1, k: 4096, n: []int{512, 128, 120}}, {m: 9, k: 2000, n: []int{77, 5}},
				{m: 2, k: 128, n: []int{4300}}, // enough for blocks of 256 threads
				{m: 16, k: 1280, n: []int{136}}, {m: 5, k: 512, n: []int{200, 200}, gated: true}, {m: 8, k: 2672, n: []int{88, 88}, gated: true},
			} {
				for _, typ := range types {
					p := newProblem(g, typ, s)
					q := &skinny.Params{X: p.x.codes, XScale: p.x.scales, M: int32(s.m), K: int32(kernels.Pairs(typ, s.k)), Parts: int32(len(p.codes))}
					for i, w := range p.weights {
						q.Part[i] = skinny.Part{Bias: p.bias[i], Scale: w.scales, Y: p.y[i], N: int32(s.n[i])}
					}
					for i, c := range p.codes {
						q.Part[i].W = c
					}
					k, err := skinny.New(l, typ, s.gated)
					g.Must(err)
					g.Must(k.Launch(g.Stream, q))
					p.compare(g, fmt.Sprint("skinny, arch ", arch))
				}
			}
		}
	})
}

func TestTile(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, arch := range archs {
			for _, typ := range types {
				k, err := densesm80.Find(loader(g, arch), typ)
				g.Must(err)
				for _, s := range []shape{{m: 1, k: 16, n: []int{1}}, {m: 17, k: 128, n: []int{50}}, {m: 129, k: 2000, n: []int{257}}, {m: 300, k: 272, n: []int{77}}} {
					p := newProblem(g, typ, s)
					g.Must(densesm80.Launch(g.Stream, k, &densesm80.Params{
						X: p.x.codes, XScale: p.x.scales, W: p.codes[0], Scale: p.weights[0].scales, Bias: p.bias[0], Y: p.y[0],
						M: int32(s.m), N: int32(s.n[0]), K: int32(kernels.Pairs(typ, s.k)),
					}))
					p.compare(g, fmt.Sprint("tile, arch ", arch))
				}
			}
		}
	})
}

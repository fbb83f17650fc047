package heads

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "gemm/heads/heads", map[string]uintptr{"heads_": unsafe.Sizeof(Params{})})
	gputest.Mirrors(t, "gemm/heads/heads_mma", map[string]uintptr{"heads_": unsafe.Sizeof(Params{})})
}

// TestAgainstPlainGo multiplies at sizes around the tiles, with numbers behind that are copied and without.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, types := range [][2]graph.Type{{graph.F32, graph.F32}, {graph.F32, graph.BF16}, {graph.BF16, graph.BF16}} {
			for _, p := range []Params{{Rows: 1, Heads: 3, N: 32, K: 16}, {Rows: 65, Heads: 2, N: 130, K: 40, Rest: 8}, {Rows: 7, Heads: 16, N: 512, K: 128, Rest: 64}, {Rows: 200, Heads: 3, N: 200, K: 328, Rest: 8}, {Rows: 9, Heads: 2, N: 31, K: 24}} {
				p.Size, p.Width = p.K+p.Rest, p.N+p.Rest
				what := fmt.Sprintf("%+v, %v", p, types)
				x, w := g.Random(int(p.Rows*p.Heads*p.Size), 1), g.Random(int(p.Heads*p.N*p.K), 1)
				p.X, p.W, p.Y = g.Put(types[0], x), g.Put(types[1], w), g.Room(types[0], int(p.Rows*p.Heads*p.Width))
				k, err := Find(g.Loader, &p, types[0], types[1])
				g.Must(err)
				g.Must(k.Launch(g.Stream, &p))
				var want []float64
				for r := range int(p.Rows) {
					for h := range int(p.Heads) {
						head := x[(r*int(p.Heads)+h)*int(p.Size):][:p.Size]
						for n := range int(p.N) {
							var sum float64
							for i, v := range w[(h*int(p.N)+n)*int(p.K):][:p.K] {
								sum += float64(v) * float64(head[i])
							}
							want = append(want, sum)
						}
						for _, v := range head[p.K:] {
							want = append(want, float64(v))
						}
					}
				}
				g.Near(what, g.Take(what, types[0], p.Y, len(want)), want, gputest.Precision(types[0]))
			}
		}
	})
}

// BenchmarkHeads is DeepSeek-V3's queries going into the latent's space, and values out of it: of decoding, beside reading the matrices, and of prompts.
func BenchmarkHeads(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, rows := range []int32{1, 16, 128, 2048, 8192} {
			for _, p := range []Params{{Heads: 128, N: 512, K: 128, Rest: 64}, {Heads: 128, N: 128, K: 512}} {
				g.Scope(func() {
					p.Rows, p.Size, p.Width = rows, p.K+p.Rest, p.N+p.Rest
					p.X, p.Y = g.Noise(int(rows*p.Heads*p.Size)*2), g.Poisoned(int(rows*p.Heads*p.Width)*2)
					matrices := int(p.Heads*p.N*p.K) * 2
					var all []Params
					for range 256<<20/matrices + 1 {
						p.W = g.Noise(matrices)
						all = append(all, p)
					}
					k, err := Find(g.Loader, &p, graph.BF16, graph.BF16)
					g.Must(err)
					d := g.Time(func(run int) error { return k.Launch(g.Stream, &all[run%len(all)]) }).Seconds()
					flops := 2 * float64(rows) * float64(p.Heads) * float64(p.N) * float64(p.K)
					fmt.Printf("heads %5d rows, %3d × %3d: %9.1f µs  %5.2f TB/s  %6.1f TFLOP/s  %s\n", rows, p.N, p.K, d*1e6, float64(matrices)/d/1e12, flops/d/1e12, g.Registers(k.kernel))
				})
			}
		}
	})
}

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
}

// TestAgainstPlainGo multiplies at sizes around the tiles, with numbers behind that are copied and without.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, types := range [][2]graph.Type{{graph.F32, graph.F32}, {graph.F32, graph.BF16}, {graph.BF16, graph.BF16}} {
			for _, p := range []Params{{Rows: 1, Heads: 3, N: 32, K: 16}, {Rows: 65, Heads: 2, N: 130, K: 40, Rest: 8}, {Rows: 7, Heads: 16, N: 512, K: 128, Rest: 64}} {
				p.Size, p.Width = p.K+p.Rest, p.N+p.Rest
				what := fmt.Sprintf("%+v, %v", p, types)
				x, w := g.Random(int(p.Rows*p.Heads*p.Size), 1), g.Random(int(p.Heads*p.N*p.K), 1)
				p.X, p.W, p.Y = g.Put(types[0], x), g.Put(types[1], w), g.Room(types[0], int(p.Rows*p.Heads*p.Width))
				k, err := Find(g.Loader, types[0], types[1])
				g.Must(err)
				g.Must(Launch(g.Stream, k, &p))
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

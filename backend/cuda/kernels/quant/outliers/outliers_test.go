package outliers

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "quant/outliers/outliers", map[string]uintptr{"add_outliers": unsafe.Sizeof(Params{}), "find_outliers": unsafe.Sizeof(Params{}), "join_outliers": unsafe.Sizeof(Params{})})
}

// TestAgainstPlainGo has rows with large numbers in columns of their own, in all columns, and nowhere.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []struct {
			m, n, k int
			columns int // every so many numbers of a row are large; 0: none
		}{{1, 16, 64, 7}, {1, 4096, 4096, 700}, {2, 300, 1024, 0}, {8, 512, 14336, 1500}, {5, 33, 96, 1}, {9, 5000, 256, 50}, {70, 130, 2048, 300}, {257, 2049, 512, 90}, {2100, 40, 64, 9}, {33, 70, 128, 1}} {
			name := fmt.Sprintf("m %d, n %d, k %d, every %d", c.m, c.n, c.k, c.columns)
			g.Sub(name, func(g *gputest.GPU) {
				x, y, scale := g.Random(c.m*c.k, 1), g.Random(c.m*c.n, 1), g.Random(c.n, 1)
				codes := make([]byte, c.n*c.k)
				for i := range codes {
					codes[i] = byte(g.Rand.IntN(255) - 127)
				}
				const threshold = 6
				for i := range x {
					x[i] = max(min(x[i], 5.9), -5.9)
					if c.columns > 0 && (i%c.k+i/c.k%3*5)%c.columns == 0 {
						x[i] *= 64
						if math.Abs(float64(x[i])) < threshold {
							x[i] = -threshold
						}
					}
				}
				want := make([]float64, c.m*c.n)
				for i := range want {
					row, column := i/c.n, i%c.n
					want[i] = float64(y[i])
					for j := range c.k {
						if v := float64(x[row*c.k+j]); math.Abs(v) >= threshold {
							want[i] += v * float64(int8(codes[column*c.k+j])) * float64(scale[column])
						}
					}
				}
				kernel, err := New(g.Loader, c.k, g.Poisoned(int(Scratch(c.m, c.k))+1))
				g.Must(err)
				to, joined := g.Poisoned(2*c.m*c.n), g.Poisoned(2*c.m*c.n)
				part := Part{W: g.Bytes(codes), Scale: g.F32(scale), Y: g.BF16(y), Sum: to, N: int64(c.n)}
				other := part // in place
				other.Y = g.BF16(y)
				other.Sum = other.Y
				p := &Params{X: g.BF16(x), Part: [MostParts]Part{part, {W: part.W, Scale: part.Scale, Y: part.Y, Sum: joined, N: 3}, other}, Parts: MostParts, M: int32(c.m), K: int32(c.k), Threshold: threshold}
				g.Must(kernel.Launch(g.Stream, p))
				g.Near(name, g.ReadBF16(to, len(want)), want, 6e-3)
				g.Near(name+", in place", g.ReadBF16(other.Sum, len(want)), want, 6e-3)
				p.Part[0].Y, p.Part[1], p.Parts, p.Joined, p.Fn = g.BF16(y), other, 2, joined, int32(graph.Silu)
				p.Part[1].Y = g.BF16(y)
				p.Part[0].Sum, p.Part[1].Sum = p.Part[0].Y, p.Part[1].Y
				g.Must(kernel.Launch(g.Stream, p))
				for i, v := range want {
					want[i] = v / (1 + math.Exp(-v)) * v
				}
				g.Near(name+", joined", g.ReadBF16(joined, len(want)), want, 2e-2)
			})
		}
	})
}

// BenchmarkOutliers prints what the layers of Llama-3.1-8B take with six columns of large numbers.
func BenchmarkOutliers(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, l := range []struct {
			name string
			n, k int
		}{{"q", 4096, 4096}, {"k", 1024, 4096}, {"gate", 14336, 4096}, {"down", 4096, 14336}} {
			kernel, err := New(g.Loader, l.k, g.Poisoned(int(Scratch(2048, l.k))))
			g.Must(err)
			fmt.Print(l.name)
			for _, m := range []int{1, 8, 32, 128, 512, 2048} {
				g.Scope(func() {
					x := g.Random(l.k, 1)
					for i := range 6 {
						x[i*l.k/6] = 20
					}
					rows, row := g.Poisoned(2*m*l.k), g.BF16(x)
					for r := range m {
						g.Must(g.Stream.Copy(rows+driver.Ptr(2*r*l.k), row, int64(2*l.k)))
					}
					p := &Params{X: rows, Parts: 1, M: int32(m), K: int32(l.k), Threshold: 6}
					p.Part[0] = Part{W: g.Noise(l.n * l.k), Scale: g.F32(g.Random(l.n, 1)), Y: g.Noise(2 * m * l.n), Sum: g.Poisoned(2 * m * l.n), N: int64(l.n)}
					d := g.Time(func(int) error { return kernel.Launch(g.Stream, p) })
					fmt.Printf("  %d: %.1f µs", m, d.Seconds()*1e6)
				})
			}
			fmt.Println()
		}
	})
}

package lora

import (
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// BenchmarkDelta is a step of 256 rows with adapters of rank 16 on the matrices of Llama-3.1-8B: A x by the parts that its columns are divided into, and B h by the
// blocks that columns of B are, beside the time that their bytes take. * marks what Launch chooses.
func BenchmarkDelta(b *testing.B) {
	const m, rank, bandwidth = 256, 16, 4.2e12
	gputest.Run(b, func(g *gputest.GPU) {
		for _, shape := range []struct {
			name string
			k    int
			n    []int
		}{{"qkv", 4096, []int{4096, 1024, 1024}}, {"o", 4096, []int{4096}}, {"gate-up", 4096, []int{14336, 14336}}, {"down", 14336, []int{4096}}} {
			for _, adapters := range []int{16, 100} {
				g.Scope(func() {
					targets, total, widest := len(shape.n), 0, 0
					var tiles, rows []int32
					for a := range adapters {
						first := len(rows)
						for row := a; row < m; row += adapters {
							rows = append(rows, int32(row))
						}
						tiles = append(tiles, int32(a), int32(first), int32(len(rows)-first), int32(a))
					}
					var set []Params
					perSlot := 0
					for _, n := range shape.n {
						perSlot, total, widest = perSlot+2*rank*(shape.k+n), total+n, max(widest, n)
					}
					copies := max(1, 256<<20/(perSlot*adapters)+1)
					scales := make([]float32, m)
					for range copies {
						p := Params{Tiles: Tiles{g.Ints(tiles...), g.Ints(rows...), g.F32(scales)}, X: g.Noise(2 * m * shape.k), H: g.Poisoned(int(16 * HBytes(adapters, targets, rank))), In: int32(shape.k), Targets: int32(targets), RankBound: rank}
						for i, n := range shape.n {
							var table []byte
							for range adapters {
								s := Slot{A: g.Noise(2 * rank * shape.k), B: g.Noise(2 * rank * n), Rank: rank, Scale: 1}
								table = append(table, EncodeSlot(&s)...)
							}
							p.Slots[i], p.Y[i], p.Out[i] = g.Bytes(table), g.Room(graph.BF16, m*n), int32(n)
						}
						set = append(set, p)
					}
					k, err := NewDelta(g.Loader)
					g.Must(err)
					mark := func(chosen bool) string {
						if chosen {
							return "*"
						}
						return ""
					}
					fmt.Printf("%-8s %3d adapters: A x (%.1f µs)", shape.name, adapters, float64(adapters*targets*2*rank*shape.k)/bandwidth*1e6)
					for _, z := range []int{1, 2, 4, 8, 16} {
						t := g.Time(func(run int) error {
							p := &set[run%copies]
							p.Splits = int32(z)
							return driver.Launch(g.Stream, k.shrink, driver.Grid{X: adapters, Y: targets, Z: z, Threads: threads}, p)
						})
						fmt.Printf(", %d: %.1f%s", z, t.Seconds()*1e6, mark(z == splits(adapters, targets)))
					}
					z := splits(adapters, targets)
					fmt.Printf("; B h (%.1f µs)", float64(2*adapters*rank*total+2*m*total)/bandwidth*1e6)
					for _, blocks := range []int{1, 2, 4, 8, 16, 56} {
						if blocks > (widest+threads-1)/threads {
							continue
						}
						t := g.Time(func(run int) error {
							p := &set[run%copies]
							p.Splits = int32(z)
							return driver.Launch(g.Stream, k.expand, driver.Grid{X: adapters, Y: blocks, Z: targets, Threads: threads}, p)
						})
						fmt.Printf(", %d: %.1f", blocks, t.Seconds()*1e6)
					}
					fmt.Println()
				})
			}
		}
	})
}

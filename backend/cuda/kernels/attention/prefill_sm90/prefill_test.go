package prefillsm90

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/prefill_sm90/prefill", map[string]uintptr{"prefill": unsafe.Sizeof(params{})})
}

func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if g.Ctx.Arch() != 90 {
			t.Skip("these kernels are Hopper's; this GPU is another")
		}
		taken := g.Zeros(4)
		for i, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 16, New: []int{2, 16, 17, 300}, Length: []int{2, 16, 17, 300}},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{130, 1, 64}, Length: []int{700, 1, 64}},
			{Heads: 8, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 64, New: []int{129, 333}, Length: []int{129, 777}, Window: 100},
			{Heads: 3, KVHeads: 1, KSize: 80, VSize: 80, PageSize: 32, New: []int{200, 31}, Length: []int{201, 131}, Softcap: 5},
			{Heads: 4, KVHeads: 2, KSize: 96, VSize: 96, PageSize: 256, New: []int{333}, Length: []int{333}, Window: 300, Softcap: 30},
			{Heads: 6, KVHeads: 3, KSize: 16, VSize: 24, PageSize: 8, New: []int{100, 2}, Length: []int{100, 2}},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{300, 60}, Length: []int{300, 400}, InOrder: true},
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 64, New: []int{200}, Length: []int{600}, Window: 300, InOrder: true},
			{Heads: 16, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 16, New: []int{150, 40}, Length: []int{400, 40}, Sinks: true},
			{Heads: 16, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 16, New: []int{150, 1, 40}, Length: []int{400, 1, 40}, Window: 128, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{200}, Length: []int{260}, Window: 70, Softcap: 4, Sinks: true},
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 16, New: []int{300, 128, 7}, Length: []int{300, 128, 7}, Bidirectional: true},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{32, 5, 64, 130}, Length: []int{300, 128, 64, 700}, Bidirectional: true},
			{Heads: 32, KVHeads: 4, KSize: 16, VSize: 16, PageSize: 16, New: []int{700, 513, 130}, Length: []int{700, 600, 130}},
			{Heads: 32, KVHeads: 4, KSize: 72, VSize: 72, PageSize: 16, New: []int{300, 90, 330}, Length: []int{300, 400, 330}, Window: 200},
			{Heads: 32, KVHeads: 4, KSize: 72, VSize: 72, PageSize: 16, New: []int{300, 90, 330}, Length: []int{300, 400, 330}},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{130, 1, 64}, Length: []int{700, 1, 64}},
			{Heads: 2, KVHeads: 1, KSize: 128, VSize: 128, PageSize: 64, New: []int{70, 513}, Length: []int{70, 513}, Bidirectional: true, Sinks: true, Softcap: 4},
			{Heads: 2, KVHeads: 1, KSize: 64, VSize: 64, PageSize: 16, New: []int{40, 130}, Length: []int{40, 200}, Softcap: 4},
			{Heads: 2, KVHeads: 1, KSize: 64, VSize: 64, PageSize: 16, New: []int{140, 30}, Length: []int{340, 60}, Softcap: 4},
		} {
			s.Scale, s.TileRows = 0.1, TileRows
			s.Type = []graph.Type{graph.BF16, graph.F16}[i%2]
			g.Scope(func() { testShape(g, s, i%3<<14, taken) })
		}
	})
}

// testShape compares a problem with plain Go, as if there were so many keys: all heads are together, or a few at a time.
func testShape(g *gputest.GPU, s gputest.Shape, tokens int, taken driver.Ptr) {
	a := g.NewAttention(s)
	p := Problem{Q: a.Q, Cache: a.Cache, Sinks: a.Sinks, Y: g.Poisoned(2 * len(a.Want)), Heads: s.Heads, KVHeads: s.KVHeads, KSize: s.KSize, VSize: s.VSize,
		Tokens: a.Rows, Pages: a.Pages, PageSize: s.PageSize, TileCounter: taken, Window: s.Window, Bidirectional: s.Bidirectional, Scale: s.Scale, Softcap: s.Softcap, Type: s.Type}
	k, err := New(g.Loader, p)
	g.Must(err)
	for range 2 { // the second begins with the count that the first left
		g.Must(k.Launch(g.Stream, &a.Step, a.Tiles, tokens))
		got, want := g.ReadBF16(p.Y, len(a.Want)), a.Want
		for i, row := 0, 0; i < len(s.New); i++ { // a sequence of one new token is the decode kernel's
			n := s.New[i] * s.Heads * s.VSize
			if s.New[i] > 1 {
				g.Near(fmt.Sprintf("%+v sequence %d", s, i), got[row:row+n], want[row:row+n], 6e-3)
			}
			row += n
		}
		g.Must(g.Stream.Fill(p.Y, 0xff, int64(2*len(a.Want))))
	}
}

// BenchmarkPrefill is causal attention of whole prompts with pages of 16 in order. Four query heads share a key head.
func BenchmarkPrefill(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct {
			seqs, length, size, page int
		}{
			{1, 2048, 128, 16}, {1, 4096, 128, 16}, {1, 8192, 128, 16}, {1, 8192, 128, 128}, {1, 16384, 128, 16}, {8, 2048, 128, 16}, {4, 4096, 128, 16}, {32, 512, 128, 16},
			{1, 2048, 64, 16}, {1, 4096, 64, 16}, {1, 8192, 64, 16}, {1, 16384, 64, 16}, {8, 2048, 64, 16}, {4, 4096, 64, 16}, {32, 512, 64, 16},
		} {
			g.Scope(func() {
				const kvHeads, heads = 8, 32
				workload := gputest.Workload{Seqs: c.seqs, Length: c.length, New: c.length, Page: c.page, TileRows: TileRows}
				step, tiles := g.Step(workload)
				cacheBytes := c.seqs * c.length * kvHeads * c.size * 2 * 2
				q := func() driver.Ptr { return g.Noise(c.seqs * c.length * heads * c.size * 2) }
				p := Problem{Q: q(), Y: q(), Cache: g.Noise(cacheBytes), Heads: heads, KVHeads: kvHeads, KSize: c.size, VSize: c.size,
					Pages: workload.Pages(), PageSize: c.page, Scale: 0.088, Type: graph.BF16, Tokens: workload.Tokens(), TileCounter: g.Zeros(4)}
				k, err := New(g.Loader, p)
				g.Must(err)
				d := g.Time(func(int) error { return k.Launch(g.Stream, &step, tiles, workload.Tokens()) })
				flops := float64(c.seqs) * 4 * float64(c.length) * float64(c.length) / 2 * heads * float64(c.size)
				fmt.Printf("pages of %d prefill %d × %5d, heads of %3d  %9.1f µs  %6.1f TFLOP/s\n", c.page, c.seqs, c.length, c.size, d.Seconds()*1e6, flops/d.Seconds()/1e12)
			})
		}
	})
}

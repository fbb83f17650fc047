package decode

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestInt4Mirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/decode/int4", map[string]uintptr{"decode": unsafe.Sizeof(int4Params{})})
}

// TestInt4 has contexts that end in the middle of a group, with its first and with its last token, of one split and of many.
func TestInt4(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		old := kernels.NewLoader(g.Ctx, 80)
		defer old.Close()
		for _, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 32, Length: []int{1, 32, 33, 64, 300}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 32, Length: []int{5000, 1, 96}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 64, Length: []int{129, 777, 1025}, Window: 100},
			{Heads: 12, KVHeads: 1, KSize: 96, VSize: 96, PageSize: 32, Length: []int{200, 31, 1601}, Softcap: 5},
			{Heads: 8, KVHeads: 4, KSize: 256, VSize: 256, PageSize: 32, Length: []int{500, 77}, Window: 64, Softcap: 20},
			{Heads: 6, KVHeads: 3, KSize: 32, VSize: 64, PageSize: 32, Length: []int{100, 2}},
			{Heads: 64, KVHeads: 8, KSize: 64, VSize: 64, PageSize: 32, Length: []int{5000, 1, 40}, Sinks: true},
			{Heads: 64, KVHeads: 8, KSize: 64, VSize: 64, PageSize: 32, Length: []int{500, 100, 3}, Window: 128, Sinks: true, Softcap: 4},
			{Heads: 8, KVHeads: 4, KSize: 256, VSize: 256, PageSize: 32, Length: []int{3000, 77}, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 32, Length: []int{64, 65}, Window: 3},
		} {
			s.Type, s.New, s.Scale = graph.I4, ones(len(s.Length)), 0.1
			for _, l := range []*kernels.Loader{g.Loader, old} {
				g.Stream.Overlap = l.Hopper()
				g.Scope(func() { testInt4(g, l, s) })
			}
		}
	})
}

func testInt4(g *gputest.GPU, l *kernels.Loader, s gputest.Shape) {
	a, seqs := g.NewAttention(s), len(s.Length)
	p := problem(s, a)
	p.Y = g.Poisoned(2 * len(a.Want))
	k, err := NewInt4(l, p, a.Newest, g.Poisoned(int(PartialBytes(l.SMs(), seqs, p))), g.Zeros(4*Counters(seqs, p)))
	g.Must(err)
	for range 2 {
		g.Must(k.Launch(g.Stream, &a.Step, a.NewestPages, seqs))
		g.Near(fmt.Sprintf("%+v, Hopper's: %v", s, l.Hopper()), g.ReadBF16(p.Y, len(a.Want)), a.Want, 6e-3)
		g.Must(g.Stream.Fill(p.Y, 0xff, int64(2*len(a.Want))))
	}
}

// BenchmarkInt4 is BenchmarkDecode's shapes over a cache in four bits, beside those in eight bits and in 16.
func BenchmarkInt4(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct{ seqs, length int }{{1, 128}, {1, 4096}, {1, 32768}, {8, 4096}, {64, 4096}, {256, 1024}} {
			for _, cache := range []graph.Type{graph.F16, graph.I8, graph.I4} {
				g.Scope(func() { benchmarkCache(g, c.seqs, c.length, cache) })
			}
		}
	})
}

func benchmarkCache(g *gputest.GPU, seqs, length int, cache graph.Type) {
	const page, kvHeads, heads, size = quant.Int4Group, 8, 32, 128
	kv := graph.Axis{Count: kvHeads, Size: size}
	bytes := seqs * length * int((&graph.Cache{K: kv, V: kv, Type: cache}).RowBytes())
	step, _ := g.Step(gputest.Workload{Seqs: seqs, Length: length, New: 1, Page: page})
	p := Problem{Q: g.Noise(seqs * heads * size * 2), Y: g.Poisoned(seqs * heads * size * 2), Heads: heads, KVHeads: kvHeads, KSize: size, VSize: size, Scale: 0.088, Type: cache}
	partial, arrived := g.Poisoned(int(PartialBytes(g.Loader.SMs(), seqs, p))), g.Zeros(4*Counters(seqs, p))
	newest := g.Noise(2 * seqs * length * 2 * kvHeads * size)
	var set []func() error
	for range max(1, 256<<20/bytes+1) {
		p.Cache = g.Noise(bytes)
		if cache == graph.I4 {
			k, err := NewInt4(g.Loader, p, newest, partial, arrived)
			g.Must(err)
			set = append(set, func() error { return k.Launch(g.Stream, &step, step.Pages, seqs) })
			continue
		}
		k, err := New(g.Loader, p, partial, arrived)
		g.Must(err)
		set = append(set, func() error { return k.Launch(g.Stream, &step, seqs) })
	}
	d := g.Time(func(run int) error { return set[run%len(set)]() })
	fmt.Printf("decode %-4s %4d × %5d  %9.1f µs  %6.2f TB/s  %5.1f ns a token\n", cache, seqs, length, d.Seconds()*1e6, float64(bytes)/d.Seconds()/1e12, d.Seconds()*1e9/float64(seqs*length))
}

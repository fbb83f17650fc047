package decode

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func ones(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/decode/decode", map[string]uintptr{"decode": unsafe.Sizeof(params{})})
}

func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 16, Length: []int{1, 16, 17, 300}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 16, Length: []int{5000, 1, 64}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 64, Length: []int{129, 777}, Window: 100},
			{Heads: 12, KVHeads: 1, KSize: 80, VSize: 80, PageSize: 32, Length: []int{200, 31}, Softcap: 5},
			{Heads: 16, KVHeads: 2, KSize: 96, VSize: 96, PageSize: 16, Length: []int{333}},
			{Heads: 8, KVHeads: 4, KSize: 256, VSize: 256, PageSize: 16, Length: []int{500, 77}, Window: 64, Softcap: 20},
			{Heads: 6, KVHeads: 3, KSize: 16, VSize: 24, PageSize: 16, Length: []int{100, 2}},
			{Heads: 64, KVHeads: 8, KSize: 64, VSize: 64, PageSize: 16, Length: []int{5000, 1, 40}, Sinks: true},
			{Heads: 64, KVHeads: 8, KSize: 64, VSize: 64, PageSize: 16, Length: []int{500, 100, 3}, Window: 128, Sinks: true, Softcap: 4},
			{Heads: 18, KVHeads: 2, KSize: 96, VSize: 96, PageSize: 32, Length: []int{900}, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, Length: []int{20, 300}, Sinks: true},
			{Heads: 8, KVHeads: 4, KSize: 256, VSize: 256, PageSize: 16, Length: []int{300, 77}, Sinks: true},
		} {
			for _, s.Type = range []graph.Type{graph.BF16, graph.I8, graph.F8} {
				if Fits(s.KSize, s.VSize, s.Type) {
					testShape(g, s)
				}
			}
		}
	})
}

func testShape(g *gputest.GPU, s gputest.Shape) {
	s.New, s.Scale = ones(len(s.Length)), 0.1
	a := g.NewAttention(s)
	p := problem(s, a)
	p.Y = g.Poisoned(2 * len(a.Want))
	k, err := New(g.Loader, p, g.Poisoned(int(PartialBytes(g.Loader.SMs(), len(s.Length), p))), g.Zeros(4*Counters(len(s.Length), p)))
	g.Must(err)
	for range 2 {
		g.Must(k.Launch(g.Stream, &a.Step, len(s.Length)))
		g.Near(fmt.Sprintf("%+v", s), g.ReadBF16(p.Y, len(a.Want)), a.Want, 6e-3)
		g.Must(g.Stream.Fill(p.Y, 0xff, int64(2*len(a.Want))))
	}
}

// TestFusedRope gives the kernel queries and keys before rope, and a cache without the step's own token.
func TestFusedRope(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if g.Ctx.Arch() != 90 {
			t.Skip("only sm_90 fuses rope and the KV write into attention")
		}
		for i, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, Length: []int{1, 16, 17, 300}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, Length: []int{5000, 1, 65, 321}},
			{Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, Length: []int{129}},
			{Heads: 12, KVHeads: 1, KSize: 128, VSize: 72, Length: []int{777, 130}, Window: 100, Softcap: 5},
			{Heads: 64, KVHeads: 8, KSize: 64, VSize: 64, Length: []int{500, 1300}, Sinks: true},
		} {
			for _, s.Type = range []graph.Type{graph.BF16, graph.F16} {
				s.New, s.Scale, s.PageSize, s.InOrder = ones(len(s.Length)), 0.1, 16, true
				for _, norm := range []bool{false, true} {
					g.Scope(func() { testTurning(g, s, i%2 == 1, norm) })
				}
			}
		}
	})
}

// unnormed is weights, and heads of numbers that normalised with these and eps give x. Weights of more than the numbers leave room for eps.
func unnormed(g *gputest.GPU, x []float32, size int, eps float64) (weights, before []float32) {
	for range size {
		weights = append(weights, 3+g.Rand.Float32())
	}
	for at := 0; at < len(x); at += size {
		mean := 0.0
		for i, v := range x[at : at+size] {
			v /= weights[i]
			before, mean = append(before, v), mean+float64(v*v)/float64(size)
		}
		for i := range size {
			before[at+i] *= float32(math.Sqrt(eps / (1 - mean)))
		}
	}
	return weights, before
}

func testTurning(g *gputest.GPU, s gputest.Shape, adjacent, norm bool) {
	what := fmt.Sprintf("%+v, normalised: %v", s, norm)
	a, seqs := g.NewAttention(s), len(s.Length)
	kLen, vLen := s.KVHeads*s.KSize, s.KVHeads*s.VSize
	var angles, newKeys, newValues, keys, values []float32
	var keysAt, valuesAt []driver.Ptr
	page := 0
	for i, n := range s.Length {
		var back []float32
		for j := range s.KSize / 2 {
			sin, cos := math.Sincos(float64(n*(j+1)) * 0.37)
			angles, back = append(angles, float32(cos), float32(sin)), append(back, float32(cos), float32(-sin))
		}
		key := a.Keys[i][(n-1)*kLen:]
		keys = append(keys, key...)
		value := a.Values[i][(n-1)*vLen:]
		values, newValues = append(values, value...), append(newValues, value...)
		key = slices.Clone(key)
		gputest.Rope(key, s.KSize, back, adjacent)
		gputest.Rope(a.Queries[i*s.Heads*s.KSize:(i+1)*s.Heads*s.KSize], s.KSize, back, adjacent)
		newKeys = append(newKeys, key...)
		at := a.Cache + driver.Ptr((page+(n-1)/16)*s.PageBytes())
		keysAt = append(keysAt, at+driver.Ptr((n-1)%16*kLen*2))
		valuesAt = append(valuesAt, at+driver.Ptr(s.PartBytes(s.KSize)+(n-1)%16*vLen*2))
		page += (n + 15) / 16
	}
	for i := range s.Length {
		g.Must(g.Stream.Fill(keysAt[i], 0xff, int64(2*kLen)))
		g.Must(g.Stream.Fill(valuesAt[i], 0xff, int64(2*vLen)))
	}
	p := problem(s, a)
	p.Q, p.Y = g.BF16(a.Queries), g.Poisoned(2*len(a.Want))
	fresh := NewToken{Keys: g.BF16(newKeys), Values: g.BF16(newValues), Angles: g.F32(angles), Adjacent: adjacent}
	if norm {
		fresh.Eps = 0.5
		weights, before := unnormed(g, a.Queries, s.KSize, 0.5)
		p.Q, fresh.QueryNorm = g.BF16(before), g.F32(weights)
		weights, before = unnormed(g, newKeys, s.KSize, 0.5)
		fresh.Keys, fresh.KeyNorm = g.BF16(before), g.F32(weights)
	}
	k, err := NewRope(g.Loader, p, fresh, g.Poisoned(int(PartialBytes(g.Loader.SMs(), seqs, p))), g.Zeros(4*Counters(seqs, p)))
	g.Must(err)
	read := g.ReadBF16
	if s.Type == graph.F16 {
		read = g.ReadF16
	}
	for range 2 {
		g.Must(k.Launch(g.Stream, &a.Step, seqs))
		g.Near(what, g.ReadBF16(p.Y, len(a.Want)), a.Want, 2e-2)
		g.Must(g.Stream.Fill(p.Y, 0xff, int64(2*len(a.Want))))
		for i := range s.Length {
			g.Near(what+" keys", read(keysAt[i], kLen), wide(keys[i*kLen:(i+1)*kLen]), 1e-2)
			g.Near(what+" values", read(valuesAt[i], vLen), wide(values[i*vLen:(i+1)*vLen]), 6e-3)
		}
	}
}

// TestGains holds the choice against what an H200 took, 8 key heads of 128 (bench/h200.md): up to 33 sequences fill one round of 264 blocks,
// and 50 to 66 a second, where the other kernel would begin one of 396 anew.
func TestGains(t *testing.T) {
	k := &Kernel{resident: 2 * 132, groups: 8}
	for _, c := range []struct {
		seqs int
		want bool
	}{{1, true}, {33, true}, {34, false}, {49, false}, {50, true}, {66, true}, {67, false}, {128, false}, {256, false}} {
		if got := k.Gains(c.seqs); got != c.want {
			t.Errorf("%d sequences: %v", c.seqs, got)
		}
	}
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func problem(s gputest.Shape, a *gputest.Attention) Problem {
	return Problem{Q: a.Q, Cache: a.Cache, Sinks: a.Sinks, Heads: s.Heads, KVHeads: s.KVHeads, KSize: s.KSize, VSize: s.VSize, Window: s.Window, Scale: s.Scale, Softcap: s.Softcap, Type: s.Type}
}

// BenchmarkDecode is GQA 4:1 with heads of 128 over a cache of pages of 16 in order, which is far larger than the L2 cache.
func BenchmarkDecode(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct {
			seqs, length int
			cache        graph.Type
			rope         bool
		}{
			{1, 128, graph.BF16, false}, {1, 4096, graph.BF16, false}, {1, 32768, graph.BF16, false}, {8, 4096, graph.BF16, false}, {32, 1024, graph.BF16, false},
			{64, 4096, graph.BF16, false}, {128, 1024, graph.BF16, false}, {256, 1024, graph.BF16, false},
			{1, 128, graph.BF16, true}, {1, 4096, graph.BF16, true}, {1, 32768, graph.BF16, true}, {8, 128, graph.BF16, true}, {8, 1024, graph.BF16, true}, {32, 128, graph.BF16, true},
			{32, 1024, graph.BF16, true}, {32, 4096, graph.BF16, true},
			{1, 4096, graph.F8, false}, {1, 32768, graph.F8, false}, {64, 4096, graph.F8, false}, {256, 1024, graph.F8, false},
			{1, 4096, graph.I8, false}, {1, 32768, graph.I8, false}, {64, 4096, graph.I8, false}, {256, 1024, graph.I8, false},
		} {
			g.Scope(func() {
				const page, kvHeads, heads, size, layers = 16, 8, 32, 128, 4
				bytes := c.seqs * c.length * 2 * kvHeads * int(c.cache.RowBytes(size))
				if c.cache == graph.I8 {
					bytes += c.seqs * c.length * 2 * kvHeads * 4
				}
				step, _ := g.Step(gputest.Workload{Seqs: c.seqs, Length: c.length, New: 1, Page: page})
				p := Problem{Q: g.Noise(c.seqs * heads * size * 2), Y: g.Poisoned(c.seqs * heads * size * 2), Heads: heads, KVHeads: kvHeads, KSize: size, VSize: size, Scale: 0.088, Type: c.cache}
				partial, arrived := g.Poisoned(int(PartialBytes(g.Loader.SMs(), c.seqs, p))), g.Zeros(4*Counters(c.seqs, p))
				fresh := NewToken{Keys: g.Noise(c.seqs * kvHeads * size * 2), Values: g.Noise(c.seqs * kvHeads * size * 2), Angles: g.Noise(c.seqs * size * 4)}
				copies := max(1, 256<<20/bytes+1)
				var set []*Kernel
				for range copies {
					p.Cache = g.Noise(bytes)
					k, err := New(g.Loader, p, partial, arrived)
					if c.rope {
						k, err = NewRope(g.Loader, p, fresh, partial, arrived)
					}
					g.Must(err)
					set = append(set, k)
				}
				d := g.Time(func(run int) error { return set[run%copies].Launch(g.Stream, &step, c.seqs) })
				what := c.cache.String()
				if c.rope {
					what += ", RoPE,"
				}
				fmt.Printf("decode %s %4d × %5d  %9.1f µs  %6.2f TB/s\n", what, c.seqs, c.length, d.Seconds()*1e6, float64(bytes)/d.Seconds()/1e12)
			})
		}
	})
}

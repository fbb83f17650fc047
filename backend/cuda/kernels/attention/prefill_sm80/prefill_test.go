package prefillsm80

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/prefill_sm80/prefill", map[string]uintptr{"prefill": unsafe.Sizeof(params{})})
	gputest.Mirrors(t, "attention/prefill_sm80/large_heads", map[string]uintptr{"prefill256": unsafe.Sizeof(largeHeadsParams{})})
}

// TestForms holds what the forms take of shared memory under what the GPUs have that run them.
func TestForms(t *testing.T) {
	for _, size := range []int{8, 64, 72, 80, 96, 128, 136, 192, 256} {
		tight, wide := variantOf(size, false), variantOf(size, true)
		if tight.size < size || wide.size != tight.size {
			t.Errorf("heads of %d run as heads of %d and %d", size, tight.size, wide.size)
		}
		if tight.shared() > 99<<10 {
			t.Errorf("%+v takes %d bytes of shared memory", tight, tight.shared())
		}
		if wide.shared() > roomy || wide.threads == 128 && 2*(wide.shared()+1<<10) > 164<<10 {
			t.Errorf("%+v takes %d bytes of shared memory", wide, wide.shared())
		}
	}
}

// way is one of the kernels for heads of a size, under its name.
type way struct {
	name string
	bind func(p prefillsm90.Problem) (launcher, error)
}

type launcher interface {
	Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error
}

// ways lists the kernels for heads of a size that the GPU can run: those for sm_80, and Hopper's.
func ways(g *gputest.GPU, old *kernels.Loader, size int) (all []way) {
	for _, f := range variants {
		if f.size == variantOf(size, true).size && f.shared() <= g.Ctx.SharedBlock {
			all = append(all, way{f.name, func(p prefillsm90.Problem) (launcher, error) { return bind(old, p, f) }})
		}
	}
	if g.Ctx.Arch() == 90 && size > 128 {
		all = append(all, way{"wide", func(p prefillsm90.Problem) (launcher, error) { return NewLargeHeads(g.Loader, p) }})
	}
	return all
}

// run is gputest.Run with the kernels for sm_80, which do not wait for the launch before, beside the GPU's own.
func run(t testing.TB, f func(g *gputest.GPU, old *kernels.Loader)) {
	gputest.Run(t, func(g *gputest.GPU) {
		old := kernels.NewLoader(g.Ctx, 80)
		defer old.Close()
		g.Stream.Overlap = false
		f(g, old)
		g.Must(g.Stream.Synchronize())
	})
}

func TestAgainstPlainGo(t *testing.T) {
	run(t, func(g *gputest.GPU, old *kernels.Loader) {
		for i, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 16, New: []int{2, 16, 17, 300}, Length: []int{2, 16, 17, 300}},
			{Heads: 4, KVHeads: 1, KSize: 128, VSize: 128, PageSize: 16, New: []int{130, 1, 64}, Length: []int{400, 1, 64}},
			{Heads: 2, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 64, New: []int{129, 333}, Length: []int{129, 777}, Window: 100},
			{Heads: 3, KVHeads: 1, KSize: 80, VSize: 80, PageSize: 32, New: []int{200, 31}, Length: []int{201, 131}, Softcap: 5},
			{Heads: 2, KVHeads: 1, KSize: 96, VSize: 96, PageSize: 256, New: []int{333}, Length: []int{333}, Window: 300, Softcap: 30},
			{Heads: 6, KVHeads: 3, KSize: 16, VSize: 24, PageSize: 16, New: []int{100, 2}, Length: []int{100, 2}},
			{Heads: 2, KVHeads: 1, KSize: 256, VSize: 256, PageSize: 16, New: []int{129, 65, 2}, Length: []int{257, 65, 191}},
			{Heads: 4, KVHeads: 2, KSize: 192, VSize: 128, PageSize: 32, New: []int{127, 64}, Length: []int{127, 1000}, Window: 33, Softcap: 20, InOrder: true},
			{Heads: 2, KVHeads: 2, KSize: 136, VSize: 256, PageSize: 128, New: []int{300}, Length: []int{301}, Sinks: true},
			{Heads: 16, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 16, New: []int{150, 1, 40}, Length: []int{400, 1, 40}, Window: 128, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{200}, Length: []int{260}, Window: 70, Softcap: 4, Sinks: true},
			{Heads: 2, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 16, New: []int{300, 128, 7}, Length: []int{300, 128, 7}, Bidirectional: true},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{32, 5, 64, 130}, Length: []int{300, 128, 64, 700}, Bidirectional: true},
			{Heads: 2, KVHeads: 1, KSize: 256, VSize: 256, PageSize: 64, New: []int{70, 200}, Length: []int{70, 200}, Bidirectional: true, Sinks: true, Softcap: 4},
			{Heads: 1, KVHeads: 1, KSize: 256, VSize: 256, PageSize: 16, New: []int{170}, Length: []int{233}, InOrder: true},
		} {
			s.Type = []graph.Type{graph.BF16, graph.F16}[i%2]
			g.Sub(fmt.Sprintf("%d-%d", max(s.KSize, s.VSize), i), func(g *gputest.GPU) { against(g, old, s, i%3<<14) })
		}
	})
}

// against compares all forms with plain Go, as if there were so many tokens: all heads in one pass, or several.
func against(g *gputest.GPU, old *kernels.Loader, s gputest.Shape, tokens int) {
	s.Scale, s.TileRows = 0.1, prefillsm90.TileRows
	a := g.NewAttention(s)
	p := problem(s)
	p.Q, p.Cache, p.Sinks, p.Pages = a.Q, a.Cache, a.Sinks, a.Pages
	for _, w := range ways(g, old, max(s.KSize, s.VSize)) {
		p.Y = g.Poisoned(2 * len(a.Want))
		k, err := w.bind(p)
		g.Must(err)
		g.Must(k.Launch(g.Stream, &a.Step, a.Tiles, tokens))
		got := g.ReadBF16(p.Y, len(a.Want))
		for i, row := 0, 0; i < len(s.New); i++ { // a sequence of one new token is the decode kernel's
			n := s.New[i] * s.Heads * s.VSize
			if s.New[i] > 1 {
				g.Near(fmt.Sprintf("%s %+v sequence %d", w.name, s, i), got[row:row+n], a.Want[row:row+n], 6e-3)
			}
			row += n
		}
	}
}

func problem(s gputest.Shape) prefillsm90.Problem {
	return prefillsm90.Problem{Heads: s.Heads, KVHeads: s.KVHeads, KSize: s.KSize, VSize: s.VSize, PageSize: s.PageSize,
		Window: s.Window, Bidirectional: s.Bidirectional, Scale: s.Scale, Softcap: s.Softcap, Type: s.Type}
}

// BenchmarkFlash is causal attention of whole prompts with pages of 16 in order. Four query heads share a key head.
func BenchmarkFlash(b *testing.B) {
	run(b, func(g *gputest.GPU, old *kernels.Loader) {
		const most = 8 * 2048 * 32 * 256 * 2 // bytes of all queries
		p := prefillsm90.Problem{Q: g.Noise(most), Y: g.Noise(most), Cache: g.Noise(most / 2)}
		for _, c := range []struct{ seqs, length int }{{1, 8192}, {8, 2048}} {
			for _, size := range []int{64, 96, 128, 256} {
				for _, w := range ways(g, old, size) {
					g.Scope(func() { whole(g, w, p, size, c.seqs, c.length) })
				}
			}
		}
	})
}

// whole times whole prompts, with the buffers of p.
func whole(g *gputest.GPU, w way, p prefillsm90.Problem, size, seqs, length int) {
	s := gputest.Shape{Heads: 32, KVHeads: 8, KSize: size, VSize: size, PageSize: 16, Scale: 0.088, Type: graph.BF16}
	workload := gputest.Workload{Seqs: seqs, Length: length, New: length, Page: s.PageSize, TileRows: rows}
	step, tiles := g.Step(workload)
	full := problem(s)
	full.Q, full.Y, full.Cache, full.Pages = p.Q, p.Y, p.Cache, workload.Pages()
	k, err := w.bind(full)
	g.Must(err)
	d := g.Time(func(int) error { return k.Launch(g.Stream, &step, tiles, workload.Tokens()) })
	flops := float64(seqs) * 4 * float64(length) * float64(length) / 2 * float64(s.Heads*size)
	fmt.Printf("%-16s %d × %5d  %9.1f µs  %6.1f TFLOP/s\n", w.name, seqs, length, d.Seconds()*1e6, flops/d.Seconds()/1e12)
}

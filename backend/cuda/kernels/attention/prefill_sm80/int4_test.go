package prefillsm80

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv4"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/graph"
)

func TestInt4Mirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/prefill_sm80/int4", map[string]uintptr{"prefill": unsafe.Sizeof(int4Params{})})
}

// TestInt4 has prompts that begin anywhere in a group, and windows that end there, with all sizes of tiles of keys.
func TestInt4(t *testing.T) {
	run(t, func(g *gputest.GPU, old *kernels.Loader) {
		for i, s := range []gputest.Shape{
			{Heads: 4, KVHeads: 4, KSize: 64, VSize: 64, PageSize: 32, New: []int{2, 16, 33, 300}, Length: []int{2, 16, 64, 300}},
			{Heads: 4, KVHeads: 1, KSize: 128, VSize: 128, PageSize: 32, New: []int{130, 1, 64, 257}, Length: []int{400, 1, 64, 700}},
			{Heads: 2, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 64, New: []int{129, 333}, Length: []int{129, 777}, Window: 100},
			{Heads: 3, KVHeads: 1, KSize: 96, VSize: 96, PageSize: 32, New: []int{200, 31}, Length: []int{201, 131}, Softcap: 5},
			{Heads: 2, KVHeads: 1, KSize: 96, VSize: 96, PageSize: 64, New: []int{333}, Length: []int{333}, Window: 300, Softcap: 30},
			{Heads: 2, KVHeads: 1, KSize: 256, VSize: 256, PageSize: 32, New: []int{129, 65, 2}, Length: []int{257, 65, 191}},
			{Heads: 16, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 32, New: []int{150, 1, 40}, Length: []int{400, 1, 40}, Window: 9, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 32, New: []int{200, 5}, Length: []int{260, 1000}, Window: 70, Softcap: 4, Sinks: true},
		} {
			s.Type, s.Scale, s.TileRows = graph.I4, 0.1, prefillsm90.TileRows
			loader := []*kernels.Loader{old, g.Loader}[i%2]
			g.Sub(fmt.Sprintf("%d-%d", max(s.KSize, s.VSize), i), func(g *gputest.GPU) { testInt4(g, loader, s) })
		}
	})
}

// dequantised is a problem's pages dequantised, as a step that reads them.
func dequantised(g *gputest.GPU, l *kernels.Loader, s gputest.Shape, a *gputest.Attention) (cache driver.Ptr, step kernels.Step) {
	pages, longest := 0, 0
	for _, n := range s.Length {
		n = (n + kv8.PageSize - 1) / kv8.PageSize
		pages, longest = pages+n, max(longest, n)
	}
	p := &kv4.DequantiseParams{
		Step: a.Step, Cache: a.Cache, Pages16: g.Poisoned(2 * pages * kv8.PageSize * s.KVHeads * (s.KSize + s.VSize)), Table: g.Poisoned(4 * len(s.Length) * longest),
		Heads: int32(s.KVHeads), KSize: int32(s.KSize), VSize: int32(s.VSize), Window: int32(s.Window), Pages: int32(longest),
	}
	open, err := kv4.Dequantise(l)
	g.Must(err)
	g.Must(kv4.LaunchDequantise(g.Stream, open, len(s.Length), p))
	step = a.Step
	step.Pages, step.SeqPages, step.PageShift = p.Table, p.Pages, kv8.PageShift
	return p.Pages16, step
}

func testInt4(g *gputest.GPU, l *kernels.Loader, s gputest.Shape) {
	a := g.NewAttention(s)
	p := problem(s)
	p.Q, p.Sinks, p.Y = a.Q, a.Sinks, g.Poisoned(2*len(a.Want))
	var step kernels.Step
	p.Cache, step = dequantised(g, l, s, a)
	k, err := NewInt4(l, p)
	g.Must(err)
	g.Must(k.Launch(g.Stream, &step, Newest{a.Newest, a.NewestPages, a.Step.SeqPages, a.Step.PageShift}, a.Tiles, 1000))
	got := g.ReadBF16(p.Y, len(a.Want))
	for i, row := 0, 0; i < len(s.New); i++ { // a sequence of one new token is the decode kernel's
		n := s.New[i] * s.Heads * s.VSize
		if s.New[i] > 1 {
			g.Near(fmt.Sprintf("%+v sequence %d", s, i), got[row:row+n], a.Want[row:row+n], 6e-3)
		}
		row += n
	}
}

package simt

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/simt/attention", map[string]uintptr{"attention_": unsafe.Sizeof(Params{}), "partial_": unsafe.Sizeof(Params{})})
	gputest.Mirrors(t, "attention/simt/int4", map[string]uintptr{"attention_": unsafe.Sizeof(Int4Params{})})
}

// TestAgainstPlainGo looks back from prompts, chunks and single tokens, with heads of any size.
func TestAgainstPlainGo(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 1, KVHeads: 1, KSize: 1, VSize: 1, PageSize: 4, New: []int{1}, Length: []int{1}},
			{Heads: 5, KVHeads: 1, KSize: 7, VSize: 33, PageSize: 4, New: []int{5, 1, 3}, Length: []int{5, 40, 35}},
			{Heads: 6, KVHeads: 3, KSize: 80, VSize: 24, PageSize: 32, New: []int{33, 1}, Length: []int{33, 129}, Softcap: 2},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, New: []int{31, 1, 2}, Length: []int{31, 257, 66}, Window: 33},
			{Heads: 4, KVHeads: 4, KSize: 255, VSize: 256, PageSize: 16, New: []int{1, 9}, Length: []int{64, 65}, Window: 9, Softcap: 20},
			{Heads: 4, KVHeads: 2, KSize: 512, VSize: 500, PageSize: 16, New: []int{3, 1}, Length: []int{33, 40}},
			{Heads: 6, KVHeads: 2, KSize: 64, VSize: 64, PageSize: 16, New: []int{40, 1}, Length: []int{40, 70}, Window: 33, Softcap: 3, Sinks: true},
			{Heads: 4, KVHeads: 4, KSize: 48, VSize: 48, PageSize: 16, New: []int{40, 1, 100}, Length: []int{40, 1, 100}, Bidirectional: true, Sinks: true},
			{Heads: 4, KVHeads: 2, KSize: 48, VSize: 48, PageSize: 16, New: []int{32, 1, 5}, Length: []int{70, 40, 105}, Bidirectional: true},
		} {
			for _, s.Type = range []graph.Type{graph.BF16, graph.F16, graph.I8, graph.F8} {
				for _, queries := range gputest.Plain {
					g.Scope(func() { against(g, s, queries) })
				}
			}
		}
	})
}

func against(g *gputest.GPU, s gputest.Shape, queries graph.Type) {
	s.Scale = 0.2
	what := fmt.Sprintf("%+v, queries %s", s, queries)
	a := g.NewAttention(s)
	p := &Params{
		Step: a.Step, Q: g.Put(queries, a.Queries), Cache: a.Cache, Y: g.Room(queries, len(a.Want)), Heads: int32(s.Heads), KVHeads: int32(s.KVHeads),
		KSize: int32(s.KSize), VSize: int32(s.VSize), Window: int32(s.Window), Scale: float32(s.Scale), Softcap: float32(s.Softcap), Sinks: a.Sinks,
	}
	if s.Bidirectional {
		p.Bidirectional = 1
	}
	k, err := Find(g.Loader, queries, s.Type)
	g.Must(err)
	const unused = 2
	g.Must(Launch(g.Stream, k, a.Rows+unused, p)) // rows beyond the step's are left alone
	g.Near(what, g.Take(what, queries, p.Y, len(a.Want)), a.Want, gputest.Precision(queries))
}

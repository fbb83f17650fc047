package kv8

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "quant/kv8/kv8", map[string]uintptr{"store_": unsafe.Sizeof(StoreParams{}), "dequantise_": unsafe.Sizeof(DequantiseParams{})})
}

// TestStore stores rows at scattered slots, with rope and without, and compares the cache with what package quant makes of them, to the
// byte without rope.
func TestStore(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, Type: graph.I8}, {Heads: 6, KVHeads: 3, KSize: 80, VSize: 24, PageSize: 32, Type: graph.I8},
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 16, Type: graph.F8}, {Heads: 4, KVHeads: 1, KSize: 256, VSize: 40, PageSize: 4, Type: graph.F8},
		} {
			for _, dim := range []int{0, s.KSize / 2, s.KSize} {
				for adjacent := range 2 {
					testStore(g, s, dim, adjacent)
				}
			}
		}
	})
}

func testStore(g *gputest.GPU, s gputest.Shape, dim, adjacent int) {
	const rows, pages = 5, 7
	what := fmt.Sprintf("%+v RoPE dims %d, adjacent %d", s, dim, adjacent)
	q, k, v := g.Random(rows*s.Heads*s.KSize, 1), g.Random(rows*s.KVHeads*s.KSize, 3), g.Random(rows*s.KVHeads*s.VSize, 100)
	angles, cache := make([]float32, rows*dim), g.Poisoned(pages*s.PageBytes())
	for i := 0; i < len(angles); i += 2 {
		angle := g.Rand.Float64() * 7
		angles[i], angles[i+1] = float32(math.Cos(angle)), float32(math.Sin(angle))
	}
	var slots []int32
	for _, slot := range g.Rand.Perm(pages * s.PageSize)[:rows] {
		slots = append(slots, int32(slot))
	}
	shift := int32(math.Round(math.Log2(float64(s.PageSize))))
	p := &StoreParams{
		Step: kernels.Step{Counts: g.Ints(rows, 1, 1), Slots: g.Ints(slots...), PageShift: shift},
		Q:    g.BF16(q), K: g.BF16(k), V: g.BF16(v), Y: g.Poisoned(2 * len(q)), Cache: cache,
		Heads: int32(s.Heads), KVHeads: int32(s.KVHeads), Size: int32(s.KSize), VSize: int32(s.VSize), Dim: int32(dim), Adjacent: int32(adjacent),
	}
	if dim > 0 {
		p.Angles = g.F32(angles)
	}
	fn, err := Store(g.Loader, graph.BF16, s.Type)
	g.Must(err)
	g.Must(LaunchStore(g.Stream, fn, rows+2, p)) // rows beyond the step's are left alone
	want := bytes.Repeat([]byte{0xff}, pages*s.PageBytes())
	for r, slot := range slots {
		rotation := angles[r*dim : (r+1)*dim]
		gputest.Rope(q[r*s.Heads*s.KSize:(r+1)*s.Heads*s.KSize], s.KSize, rotation, adjacent == 1)
		gputest.Rope(k[r*s.KVHeads*s.KSize:(r+1)*s.KVHeads*s.KSize], s.KSize, rotation, adjacent == 1)
		page := want[int(slot)/s.PageSize*s.PageBytes():]
		s.Store(page, int(slot)%s.PageSize, s.KSize, k[r*s.KVHeads*s.KSize:(r+1)*s.KVHeads*s.KSize])
		s.Store(page[s.PartBytes(s.KSize):], int(slot)%s.PageSize, s.VSize, v[r*s.KVHeads*s.VSize:(r+1)*s.KVHeads*s.VSize])
	}
	got, wrong := g.ReadBytes(cache, len(want)), 0
	for i := range want {
		if got[i] != want[i] {
			wrong++
		}
	}
	if wrong > 0 && dim == 0 || wrong > rows*s.KVHeads*s.KSize/50 { // rotated numbers may round the other way
		g.Errorf("%s: %d of %d bytes of the cache are wrong", what, wrong, rows*s.KVHeads*(s.KSize+s.VSize))
	}
	rotated := make([]float64, len(q))
	for i, x := range q {
		rotated[i] = float64(x)
	}
	g.Near(what+": queries", g.ReadBF16(p.Y, len(q)), rotated, 1e-3)
}

// TestOpen opens the pages of some sequences of a step: those with several new tokens, behind each other.
func TestOpen(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 2, KVHeads: 2, KSize: 64, VSize: 32, PageSize: 16, Type: graph.I8}, {Heads: 2, KVHeads: 1, KSize: 128, VSize: 128, PageSize: 64, Type: graph.F8},
			{Heads: 2, KVHeads: 1, KSize: 16, VSize: 16, PageSize: 16, Type: graph.F8, Window: 100},
		} {
			s.New, s.Length, s.Scale = []int{9, 300, 1, 5}, []int{9, 300, 40, 600}, 0.1
			testOpen(g, s, []int{1, 3})
		}
	})
}

// testOpen opens the sequences from 1 on, of which opened are those with several new tokens.
func testOpen(g *gputest.GPU, s gputest.Shape, opened []int) {
	const longest, pages = 5, 3 + 5
	a, each := g.NewAttention(s), PageSize*s.KVHeads*(s.KSize+s.VSize)
	p := &DequantiseParams{
		Step: a.Step, Cache: a.Cache, Pages16: g.Poisoned(2 * pages * each), Table: g.Poisoned(4 * len(s.New) * longest),
		Heads: int32(s.KVHeads), KSize: int32(s.KSize), VSize: int32(s.VSize), Window: int32(s.Window), FirstSeq: 1, Pages: longest,
	}
	fn, err := Dequantise(g.Loader, s.Type)
	g.Must(err)
	g.Must(LaunchDequantise(g.Stream, fn, 3, p))
	table, numbers := g.ReadBytes(p.Table, 4*len(s.New)*longest), g.ReadF16(p.Pages16, pages*each)
	page := 0
	for _, seq := range opened {
		for j := 0; j*PageSize < s.Length[seq]; j++ {
			if got := int(table[4*(seq*longest+j)]); got != page {
				g.Fatalf("%+v: page %d of sequence %d is opened page %d, want %d", s, j, seq, got, page)
			}
			for token := j * PageSize; token < min((j+1)*PageSize, s.Length[seq]); token++ {
				if (j+1)*PageSize <= s.Length[seq]-s.New[seq]-s.Window+1 && s.Window > 0 {
					continue // out of sight
				}
				kLen, vLen := s.KVHeads*s.KSize, s.KVHeads*s.VSize
				row := numbers[page*each+token%PageSize*kLen:][:kLen]
				near(g, row, a.Keys[seq][token*kLen:(token+1)*kLen])
				near(g, numbers[page*each+PageSize*kLen+token%PageSize*vLen:][:vLen], a.Values[seq][token*vLen:(token+1)*vLen])
			}
			page++
		}
	}
}

func near(g *gputest.GPU, got, want []float32) {
	for i := range want {
		if e := math.Abs(float64(got[i] - want[i])); !(e <= 1e-3*math.Abs(float64(want[i]))+1e-7) {
			g.Fatalf("number %d is %g, want %g", i, got[i], want[i])
		}
	}
}

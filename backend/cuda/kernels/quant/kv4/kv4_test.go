package kv4

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "quant/kv4/kv4", map[string]uintptr{"store_": unsafe.Sizeof(StoreParams{}), "dequantise": unsafe.Sizeof(DequantiseParams{})})
}

// TestStore stores a sequence's rows in two steps, with rope and without, and compares both caches with what package quant makes of them, to the byte
// without rope: pages are not in order, and a group is made of tokens of both steps.
func TestStore(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 8, KVHeads: 2, KSize: 128, VSize: 128, PageSize: 32}, {Heads: 6, KVHeads: 3, KSize: 80, VSize: 24, PageSize: 32},
			{Heads: 4, KVHeads: 1, KSize: 64, VSize: 96, PageSize: 64}, {Heads: 2, KVHeads: 2, KSize: 256, VSize: 256, PageSize: 32},
		} {
			for _, dim := range []int{0, s.KSize / 2, s.KSize} {
				for adjacent := range 2 {
					s.Type = graph.I4
					g.Scope(func() { testStore(g, s, dim, adjacent) })
				}
			}
		}
	})
}

func testStore(g *gputest.GPU, s gputest.Shape, dim, adjacent int) {
	const tokens, first, pages = 100, 41, 7
	what := fmt.Sprintf("%+v RoPE dims %d, adjacent %d", s, dim, adjacent)
	kLen, vLen, halfPage := s.KVHeads*s.KSize, s.KVHeads*s.VSize, 2*s.PageSize*s.KVHeads*(s.KSize+s.VSize)
	q, k, v := g.Random(tokens*s.Heads*s.KSize, 1), g.Random(tokens*kLen, 3), g.Random(tokens*vLen, 10)
	angles := make([]float32, tokens*dim)
	for i := 0; i < len(angles); i += 2 {
		sin, cos := math.Sincos(g.Rand.Float64() * 7)
		angles[i], angles[i+1] = float32(cos), float32(sin)
	}
	var table, newestTable, slots, newestSlots []int32
	for i := range pages {
		table, newestTable = append(table, int32(pages-1-i)), append(newestTable, int32((i+3)%pages))
	}
	for p := range tokens {
		slots = append(slots, table[p/s.PageSize]*int32(s.PageSize)+int32(p%s.PageSize))
		newestSlots = append(newestSlots, newestTable[p/s.PageSize]*int32(s.PageSize)+int32(p%s.PageSize))
	}
	cache, newest := g.Poisoned(pages*s.PageBytes()), g.Poisoned(pages*halfPage)
	fn, err := Store(g.Loader, graph.BF16)
	g.Must(err)
	for _, step := range [][2]int{{0, first}, {first, tokens}} {
		from, n := step[0], step[1]-step[0]
		p := &StoreParams{
			Step: kernels.Step{Counts: g.Ints(int32(n), 1, 1), Slots: g.Ints(slots[from:step[1]]...), RowSeq: g.Ints(make([]int32, n)...), QStart: g.Ints(0, int32(n)),
				KVLen: g.Ints(int32(step[1])), Pages: g.Ints(table...), SeqPages: pages, PageShift: int32(math.Round(math.Log2(float64(s.PageSize))))},
			Newest: Newest{newest, g.Ints(newestTable...), g.Ints(newestSlots[from:step[1]]...)},
			Q:      g.BF16(q[from*s.Heads*s.KSize : step[1]*s.Heads*s.KSize]), K: g.BF16(k[from*kLen : step[1]*kLen]), V: g.BF16(v[from*vLen : step[1]*vLen]),
			Y: g.Poisoned(2 * n * s.Heads * s.KSize), Cache: cache,
			KVHeads: int32(s.KVHeads), Size: int32(s.KSize), VSize: int32(s.VSize), Dim: int32(dim), Adjacent: int32(adjacent),
		}
		if dim > 0 {
			p.Heads, p.Angles = int32(s.Heads), g.F32(angles[from*dim:step[1]*dim])
		}
		g.Must(LaunchStore(g.Stream, fn, n+2, p)) // rows beyond the step's are left alone
		var rotated []float64
		for r := from; r < step[1]; r++ {
			rotation := angles[r*dim : (r+1)*dim]
			gputest.Rope(q[r*s.Heads*s.KSize:(r+1)*s.Heads*s.KSize], s.KSize, rotation, adjacent == 1)
			gputest.Rope(k[r*kLen:(r+1)*kLen], s.KSize, rotation, adjacent == 1)
			for _, x := range q[r*s.Heads*s.KSize : (r+1)*s.Heads*s.KSize] {
				rotated = append(rotated, float64(x))
			}
		}
		if dim > 0 {
			g.Near(what+": queries", g.ReadBF16(p.Y, len(rotated)), rotated, 1e-3)
		}
	}
	want, half := bytes.Repeat([]byte{0xff}, pages*s.PageBytes()), bytes.Repeat([]byte{0xff}, pages*halfPage)
	for p := range tokens {
		at := int(newestTable[p/s.PageSize]) * halfPage
		for i, x := range k[p*kLen : (p+1)*kLen] {
			binary.LittleEndian.PutUint16(half[at+2*(p%s.PageSize*kLen+i):], quant.F32ToF16(x))
		}
		for i, x := range v[p*vLen : (p+1)*vLen] {
			binary.LittleEndian.PutUint16(half[at+2*(s.PageSize*kLen+p%s.PageSize*vLen+i):], quant.F32ToF16(x))
		}
	}
	for p := 0; p+quant.Int4Group <= tokens; p += quant.Int4Group {
		page := want[int(table[p/s.PageSize])*s.PageBytes():]
		s.StoreInt4(page[p%s.PageSize*s.PageBytes()/s.PageSize:], k[p*kLen:(p+quant.Int4Group)*kLen], v[p*vLen:(p+quant.Int4Group)*vLen])
	}
	for name, c := range map[string]struct{ got, want []byte }{"the cache": {g.ReadBytes(cache, len(want)), want}, "the residual cache": {g.ReadBytes(newest, len(half)), half}} {
		wrong := 0
		for i := range c.want {
			if c.got[i] != c.want[i] {
				wrong++
			}
		}
		if wrong > 0 && dim == 0 || wrong > len(c.want)/50 { // rotated numbers may round the other way
			g.Errorf("%s: %d of %d bytes of %s are wrong", what, wrong, len(c.want), name)
		}
	}
}

// TestDequantise dequantises the pages of some sequences of a step: those with several new tokens, behind each other, whole groups of tokens.
func TestDequantise(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 2, KVHeads: 2, KSize: 64, VSize: 32, PageSize: 32}, {Heads: 2, KVHeads: 1, KSize: 128, VSize: 128, PageSize: 64}, {Heads: 2, KVHeads: 1, KSize: 72, VSize: 40, PageSize: 32, Window: 100},
		} {
			s.Type, s.New, s.Length, s.Scale = graph.I4, []int{9, 300, 1, 5}, []int{9, 300, 40, 600}, 0.1
			testDequantise(g, s, []int{1, 3})
		}
	})
}

// testDequantise dequantises the sequences from 1 on, of which opened are those with several new tokens.
func testDequantise(g *gputest.GPU, s gputest.Shape, opened []int) {
	const longest, pages = 5, 3 + 5
	a, each := g.NewAttention(s), kv8.PageSize*s.KVHeads*(s.KSize+s.VSize)
	p := &DequantiseParams{
		Step: a.Step, Cache: a.Cache, Pages16: g.Poisoned(2 * pages * each), Table: g.Poisoned(4 * len(s.New) * longest),
		Heads: int32(s.KVHeads), KSize: int32(s.KSize), VSize: int32(s.VSize), Window: int32(s.Window), FirstSeq: 1, Pages: longest,
	}
	fn, err := Dequantise(g.Loader)
	g.Must(err)
	g.Must(LaunchDequantise(g.Stream, fn, 3, p))
	table, numbers := g.ReadBytes(p.Table, 4*len(s.New)*longest), g.ReadF16(p.Pages16, pages*each)
	kLen, vLen, page := s.KVHeads*s.KSize, s.KVHeads*s.VSize, 0
	for _, seq := range opened {
		for j := 0; j*kv8.PageSize < s.Length[seq]; j++ {
			if got := int(table[4*(seq*longest+j)]); got != page {
				g.Fatalf("%+v: page %d of sequence %d is dequantised page %d, want %d", s, j, seq, got, page)
			}
			for token := j * kv8.PageSize; token < min((j+1)*kv8.PageSize, s.Length[seq]/quant.Int4Group*quant.Int4Group); token++ {
				if s.Window > 0 && token < s.Length[seq]-s.New[seq]-s.Window+1 {
					continue // out of sight
				}
				row := page*each + token%kv8.PageSize*kLen
				near(g, numbers[row:row+kLen], a.Keys[seq][token*kLen:(token+1)*kLen])
				row = page*each + kv8.PageSize*kLen + token%kv8.PageSize*vLen
				near(g, numbers[row:row+vLen], a.Values[seq][token*vLen:(token+1)*vLen])
			}
			page++
		}
	}
}

func near(g *gputest.GPU, got, want []float32) {
	g.Helper()
	for i := range want {
		if e := math.Abs(float64(got[i] - want[i])); !(e <= 1e-3*math.Abs(float64(want[i]))+1e-6) {
			g.Fatalf("number %d is %g, want %g", i, got[i], want[i])
		}
	}
}

package rope

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
	gputest.Mirrors(t, "rope/rope", map[string]uintptr{
		"angles": unsafe.Sizeof(AnglesParams{}), "rope_": unsafe.Sizeof(Params{}), "rope_store_": unsafe.Sizeof(RopeStoreParams{}),
	})
}

// TestAngles: cosines and sines of float32 angles, up to 130,000 radians, with frequencies of the step and of each sequence.
func TestAngles(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		k, err := Angles(g.Loader)
		g.Must(err)
		positions, rowSeq := []int32{0, 1, 7, 4095, 99999, 131071}, []int32{0, 0, 1, 1, 2, 2}
		const seqs, magnitude, unused = 3, 1.25, 2
		for _, pairs := range []int{1, 3, 16, 64, 127, 128, 129} {
			for perSequence := range 2 {
				what := fmt.Sprintf("%d pairs, of each sequence %d", pairs, perSequence)
				frequencies := make([]float32, seqs*pairs)
				for i := range frequencies {
					frequencies[i] = float32(math.Pow(10000, -float64(i%pairs)/float64(pairs))) / float32(1+i/pairs)
				}
				rows := len(positions)
				p := &AnglesParams{
					Step:        kernels.Step{Counts: g.Ints(int32(rows), seqs, 0), Positions: g.Ints(positions...), RowSeq: g.Ints(rowSeq...)},
					Frequencies: g.F32(frequencies), Y: g.Room(graph.F32, rows*pairs*2), Pairs: int32(pairs), PerSequence: int32(perSequence), Magnitude: magnitude,
				}
				g.Must(LaunchAngles(g.Stream, k, rows+unused, p)) // rows beyond the step's are left alone
				var want []float64
				for r, position := range positions {
					for i := range pairs {
						angle := float64(float32(position) * frequencies[perSequence*int(rowSeq[r])*pairs+i])
						want = append(want, magnitude*math.Cos(angle), magnitude*math.Sin(angle))
					}
				}
				g.Near(what, g.Take(what, graph.F32, p.Y, len(want)), want, 1e-6)
			}
		}
	})
}

// randomAngles is a cosine and a sine for each of so many pairs.
func randomAngles(g *gputest.GPU, pairs int) (x []float32) {
	for range pairs {
		angle := g.Rand.Float64() * 7
		x = append(x, float32(math.Cos(angle)), float32(math.Sin(angle)))
	}
	return x
}

// TestRope rotates heads of any size, all of their dims and a part.
func TestRope(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			k, err := Rope(g.Loader, typ)
			g.Must(err)
			for _, c := range []struct{ rows, heads, size, dim int }{
				{1, 1, 2, 2}, {3, 3, 7, 4}, {2, 5, 32, 32}, {4, 2, 80, 20}, {1, 32, 128, 128}, {5, 3, 129, 64}, {2, 40, 257, 256},
			} {
				for adjacent := range 2 {
					what := fmt.Sprintf("%+v %s, adjacent %d", c, typ, adjacent)
					n := c.rows * c.heads * c.size
					x, angles := g.Random(n, 1), randomAngles(g, c.rows*c.dim/2)
					p := &Params{
						X: g.Put(typ, x), Angles: g.F32(angles), Y: g.Room(typ, n), Heads: int32(c.heads), Size: int32(c.size), Dim: int32(c.dim), Adjacent: int32(adjacent),
					}
					g.Must(LaunchRope(g.Stream, k, c.rows, p))
					g.Near(what, g.Take(what, typ, p.Y, n), rotated(x, angles, c.rows, c.heads*c.size, c.size, c.dim, adjacent == 1), gputest.Precision(typ))
				}
			}
		}
	})
}

// rotated is x with each head of each row rotated, in float64.
func rotated(x, angles []float32, rows, width, size, dim int, adjacent bool) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	for r := range rows {
		for h := r * width; h < (r+1)*width; h += size {
			for i := range dim / 2 {
				a, b := h+i, h+i+dim/2
				if adjacent {
					a, b = h+2*i, h+2*i+1
				}
				c, s := float64(angles[r*dim+2*i]), float64(angles[r*dim+2*i+1])
				y[a], y[b] = y[a]*c-y[b]*s, y[b]*c+y[a]*s
			}
		}
	}
	return y
}

// TestRopeKVWrite rotates queries and keys, and checks that keys and values are in their slots of the cache and nothing else is written.
func TestRopeKVWrite(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, s := range []gputest.Shape{
			{Heads: 1, KVHeads: 1, KSize: 16, VSize: 8, PageSize: 4}, {Heads: 32, KVHeads: 8, KSize: 128, VSize: 128, PageSize: 16},
			{Heads: 6, KVHeads: 3, KSize: 80, VSize: 24, PageSize: 32}, {Heads: 4, KVHeads: 1, KSize: 256, VSize: 40, PageSize: 16},
		} {
			for _, s.Type = range []graph.Type{graph.BF16, graph.F16} {
				for _, dim := range []int{16, s.KSize / 32 * 16, s.KSize} {
					for adjacent := range 2 {
						if RopeStoreFits(s.KSize, dim, s.KVHeads*s.VSize) && dim > 0 {
							testRopeKVWrite(g, s, dim, adjacent)
						}
					}
				}
			}
		}
	})
}

func testRopeKVWrite(g *gputest.GPU, s gputest.Shape, dim, adjacent int) {
	const rows, pages, unused = 5, 7, 2
	what := fmt.Sprintf("%+v RoPE dims %d, adjacent %d", s, dim, adjacent)
	qLen, kLen, vLen := s.Heads*s.KSize, s.KVHeads*s.KSize, s.KVHeads*s.VSize
	q, k, v, angles := g.Random(rows*qLen, 1), g.Random(rows*kLen, 1), g.Random(rows*vLen, 1), randomAngles(g, rows*dim/2)
	var slots []int32
	for _, slot := range g.Rand.Perm(pages * s.PageSize)[:rows] {
		slots = append(slots, int32(slot))
	}
	p := &RopeStoreParams{
		Step: kernels.Step{Counts: g.Ints(rows, 1, 1), Slots: g.Ints(append(slots, 0, 0)...), PageShift: int32(math.Round(math.Log2(float64(s.PageSize))))},
		Q:    g.BF16(q), K: g.BF16(k), V: g.BF16(v), Angles: g.F32(angles), Y: g.Room(graph.BF16, len(q)), Cache: g.Poisoned(pages * s.PageBytes()),
		Heads: int32(s.Heads), KVHeads: int32(s.KVHeads), Size: int32(s.KSize), VLen: int32(vLen), Dim: int32(dim), Adjacent: int32(adjacent),
	}
	kernel, err := RopeStore(g.Loader, s.Type)
	g.Must(err)
	g.Must(LaunchRopeStore(g.Stream, kernel, rows+unused, p))
	g.Near(what+": queries", g.Take(what, graph.BF16, p.Y, len(q)), rotated(q, angles, rows, qLen, s.KSize, dim, adjacent == 1), gputest.Precision(graph.BF16))

	want := bytes.Repeat([]byte{0xff}, pages*s.PageBytes())
	for r, slot := range slots {
		keys := k[r*kLen : (r+1)*kLen]
		gputest.Rope(keys, s.KSize, angles[r*dim:(r+1)*dim], adjacent == 1)
		page := want[int(slot)/s.PageSize*s.PageBytes():]
		s.Store(page, int(slot)%s.PageSize, s.KSize, keys)
		s.Store(page[s.PartBytes(s.KSize):], int(slot)%s.PageSize, s.VSize, v[r*vLen:(r+1)*vLen])
	}
	got, wrong := g.ReadBytes(p.Cache, len(want)), 0
	for i := range want {
		if got[i] != want[i] {
			wrong++
		}
	}
	if wrong > rows*kLen/50 { // a rotated number may round the other way
		g.Errorf("%s: %d bytes of the cache are wrong", what, wrong)
	}
}

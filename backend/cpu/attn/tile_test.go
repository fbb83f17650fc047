package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/quant"
)

// tokenwise are the elements of caches that tokens are written to one by one. Those of I4 are compared with the reference by package cpu.
var tokenwise = []Element{F32, F16, BF16, I8}

// setting is a sequence in a cache whose other slots hold NaN, as memory that other sequences used may.
type setting struct {
	cache *Cache
	pages []int32
	k, v  [][]float32 // [token][heads × size], rounded to the cache's type
}

func newSetting(tier gemm.Tier, e Element, size, tokens int, seed uint64) *setting {
	const heads, pageSize = 2, 32
	rnd := rand.New(rand.NewPCG(seed, uint64(size)))
	n := (tokens + pageSize - 1) / pageSize
	s := &setting{cache: &Cache{Element: e, Heads: heads, KeySize: size, ValueSize: size, PageSize: pageSize}}
	s.cache.Data = make([]byte, s.cache.block(n+1, 0, 0))
	for i := range s.cache.Data {
		s.cache.Data[i] = 0xff
	}
	for _, p := range rnd.Perm(n + 1)[:n] {
		s.pages = append(s.pages, int32(p))
	}
	row := func() []float32 {
		x := make([]float32, heads*size)
		for i := range x {
			x[i] = float32(rnd.NormFloat64())
		}
		return x
	}
	half := make([]uint16, size)
	for p := range tokens {
		k, v := row(), row()
		s.cache.Write(vec.For(tier), int(s.pages[p/pageSize])*pageSize+p%pageSize, k, v, half)
		for _, x := range [][]float32{k, v} {
			for i := range x {
				switch e {
				case F16:
					x[i] = quant.F16ToF32(quant.F32ToF16(x[i]))
				case BF16:
					x[i] = quant.BF16ToF32(quant.F32ToBF16(x[i]))
				}
			}
			for h := 0; e == I8 && h < len(x); h += size {
				bytes := make([]int8, size)
				scale := quant.EncodeInt8(bytes, x[h:h+size])
				for i, b := range bytes {
					x[h+i] = float32(b) * scale
				}
			}
		}
		s.k, s.v = append(s.k, k), append(s.v, v)
	}
	return s
}

// naive is attention as it is defined, in float64.
func (s *setting) naive(q []float32, head, low, high int, scale, limit float64) []float64 {
	size := len(q)
	out, sum := make([]float64, size), 0.0
	for p := low; p < high; p++ {
		x := 0.0
		for i := range q {
			x += float64(q[i]) * float64(s.k[p][head*size+i])
		}
		if x *= scale; limit != 0 {
			x = limit * math.Tanh(x/limit)
		}
		e := math.Exp(x)
		sum += e
		for i := range out {
			out[i] += e * float64(s.v[p][head*size+i])
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// TestTile compares with the definition: every tier, type and kind of head size, contexts around blocks, tiles and
// segments, few rows and many, windows and softcaps.
func TestTile(t *testing.T) {
	for _, tier := range gemm.Tiers() {
		for _, e := range tokenwise {
			for i, size := range []int{8, 16, 20, 64, 80, 96, 128, 256} {
				for j, tokens := range []int{1, 15, 16, 17, 63, 65, 255, 257, 600} {
					queries := []int{1, 7, 13}[(i+j)%3]
					h := Head{Scale: 0.3, Softcap: float32(j % 3)}
					window := []int{0, 0, 40}[(i+2*j)%3]
					t.Run(fmt.Sprintf("%s/%d/size%d/tokens%d", tier, e, size, tokens), func(t *testing.T) {
						testTile(t, tier, newSetting(tier, e, size, tokens, uint64(j)), h, min(queries, tokens), window)
					})
				}
			}
		}
	}
}

// bound is how far the attention may be from its definition.
func (s *setting) bound() float64 {
	if s.cache.Element == I8 {
		return 5e-4 // Q and P are quantized to 16 bits: see int8.go
	}
	return 2e-5
}

// TestTileLengths has two queries attend to every number of keys from 1 to 257, from the first or from a later one, under
// every tier and for every type; heads of 20 end within a vector.
func TestTileLengths(t *testing.T) {
	const size, most, head = 20, 257, 0
	for _, tier := range gemm.Tiers() {
		for _, e := range tokenwise {
			t.Run(fmt.Sprintf("%s/%d", tier, e), func(t *testing.T) {
				s := newSetting(tier, e, size, most, 9)
				h := Head{Cache: s.cache, Scale: 0.3}
				q, out := s.k[most/2], make([]float32, size) // as good as any others
				tile := NewTile(tier, make([]float32, TileFloats(tier, 2, size, size)), 2, size, size)
				for high := 1; high <= most; high++ {
					low := high % 3 * (high / 7)
					tile.Reset()
					tile.AddQueries(h, q, low, high)
					for seg := low / Segment; seg*Segment < high; seg++ {
						tile.Segment(h, s.pages, head, seg)
						tile.Merge(seg)
					}
					for row := range 2 {
						tile.Out(row, out)
						for i, want := range s.naive(q[row*size:][:size], head, low, high, float64(h.Scale), 0) {
							if !(math.Abs(float64(out[i])-want) < s.bound()) {
								t.Fatalf("keys %d to %d, row %d, dimension %d: %g, %g is right", low, high, row, i, out[i], want)
							}
						}
					}
				}
			})
		}
	}
}

// TestExp2 compares with the definition, down to where nothing is left.
func TestExp2(t *testing.T) {
	for x := float32(0); x > -160; x -= 0.037 {
		if got, want := float64(exp2(x)), math.Exp2(float64(x)); math.Abs(got-want) > 1.2e-7*want+0x1p-149 {
			t.Errorf("2^%g is %g, not %g", x, want, got)
		}
	}
	if nan := exp2(float32(math.NaN())); nan == nan {
		t.Errorf("2^NaN is %g", nan)
	}
}

func testTile(t *testing.T, tier gemm.Tier, s *setting, h Head, queries, window int) {
	const share = 3
	tokens, size := len(s.k), s.cache.KeySize
	h.Cache = s.cache
	rnd := rand.New(rand.NewPCG(5, 5))
	q := make([]float32, queries*share*size)
	for i := range q {
		q[i] = float32(rnd.NormFloat64())
	}
	tile := NewTile(tier, make([]float32, TileFloats(tier, queries*share, size, size)), queries*share, size, size)
	tile.Reset()
	low := func(r int) int {
		if window == 0 {
			return 0
		}
		return max(0, tokens-queries+r-window+1)
	}
	for r := range queries {
		tile.AddQueries(h, q[r*share*size:(r+1)*share*size], low(r), tokens-queries+r+1)
	}
	stored := make([]float32, PartialFloats(size)*(tokens/Segment+1))
	const head = 1
	bound := s.bound()
	for seg := low(0) / Segment; seg*Segment < tokens; seg++ {
		tile.Segment(h, s.pages, head, seg)
		tile.Merge(seg)
		tile.Partial((queries-1)*share, stored[seg*PartialFloats(size):])
	}
	out, first := make([]float32, size), []float32(nil)
	for row := range queries * share {
		tile.Out(row, out)
		if row == (queries-1)*share {
			first = append(first, out...)
		}
		want := s.naive(q[row*size:(row+1)*size], head, low(row/share), tokens-queries+row/share+1, float64(h.Scale), float64(h.Softcap))
		for i := range want {
			if !(math.Abs(float64(out[i])-want[i]) < bound) {
				t.Fatalf("row %d, dimension %d: %g, %g is right", row, i, out[i], want[i])
			}
		}
	}
	// The last token's first row, from partial results, must be the same to the bit.
	from := low(queries-1) / Segment
	tile.CombinePartials(stored[from*PartialFloats(size):], PartialFloats(size), (tokens-1)/Segment-from+1)
	tile.Out(0, out)
	for i := range out {
		if out[i] != first[i] {
			t.Fatalf("dimension %d is %g when totalSum from partial results, and %g otherwise", i, out[i], first[i])
		}
	}
}

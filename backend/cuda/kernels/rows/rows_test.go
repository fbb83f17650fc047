package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "rows/rows", map[string]uintptr{"embed_": unsafe.Sizeof(EmbedParams{}), "select_": unsafe.Sizeof(SelectParams{}), "kv_write_": unsafe.Sizeof(KVWriteParams{})})
}

func TestLatentMirrors(t *testing.T) {
	gputest.Mirrors(t, "rows/latent", map[string]uintptr{"latent_write_": unsafe.Sizeof(LatentWriteParams{})})
}

// unused is how many rows more than a step has a launch may cover: they are left alone.
const unused = 2

// TestEmbed looks tokens up by id, by position, and by what the step before drew.
func TestEmbed(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		const vocab, scale = 11, 3.5
		ids, positions, prevTokens := []int32{3, 0, 10, -2, -1}, []int32{7, 8, 0, 1, 10}, []int32{9, 4}
		looked := [][]int32{{3, 0, 10, 4, 9}, positions}
		index := []driver.Ptr{g.Ints(append(ids, 0, 0)...), g.Ints(append(positions, 0, 0)...)}
		for _, to := range gputest.Plain {
			for _, from := range gputest.Plain {
				if from == graph.F32 && to == graph.BF16 {
					continue // tables for rows of bf16 are in bf16
				}
				k, err := Embed(g.Loader, from, to)
				g.Must(err)
				for _, n := range []int{1, 7, 64, 255, 256, 257, 1000} {
					for byPosition := range 2 {
						what := fmt.Sprintf("rows of %d, %s to %s, by position %d", n, from, to, byPosition)
						table := g.Random(vocab*n, 1)
						p := &EmbedParams{
							Step:  kernels.Step{Counts: g.Ints(int32(len(ids)), 1, 0)},
							Table: g.Put(from, table), Y: g.Room(to, len(ids)*n), PrevTokens: g.Ints(prevTokens...), Index: index[byPosition], N: int32(n), Scale: scale,
						}
						g.Must(Launch(g.Stream, k, len(ids)+unused, p))
						var want []float64
						for _, id := range looked[byPosition] {
							for _, x := range table[int(id)*n : (int(id)+1)*n] {
								want = append(want, scale*float64(x))
							}
						}
						g.Near(what, g.Take(what, to, p.Y, len(want)), want, gputest.Precision(to))
					}
				}
			}
		}
	})
}

// TestPick copies rows to the bit, some of them twice.
func TestPick(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, of := range gputest.Plain {
			for _, n := range []int{1, 3, 255, 256, 257, 2048} {
				testPick(g, of, n)
			}
		}
	})
}

func testPick(g *gputest.GPU, of graph.Type, n int) {
	what := fmt.Sprintf("rows of %d %s", n, of)
	selected := []int32{4, 0, 4, 2}
	k, words, err := Select(g.Loader, of.RowBytes(n))
	g.Must(err)
	x := g.Random(5*n, 1)
	p := &SelectParams{
		Step: kernels.Step{Counts: g.Ints(5, 1, int32(len(selected))), LogitsIndices: g.Ints(append(selected, 0, 0)...)},
		X:    g.Put(of, x), Y: g.Room(of, len(selected)*n), Words: words,
	}
	g.Must(Launch(g.Stream, k, len(selected)+unused, p))
	var want []float64
	for _, r := range selected {
		for _, v := range x[int(r)*n : (int(r)+1)*n] {
			want = append(want, float64(v))
		}
	}
	g.Near(what, g.Take(what, of, p.Y, len(want)), want, 0)
}

// TestKVWrite stores rows at scattered slots and compares the whole cache.
func TestKVWrite(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, from := range gputest.Plain {
			for _, cache := range []graph.Type{graph.F32, graph.F16, graph.BF16} {
				for _, c := range []struct{ kLen, vLen, pageSize int }{{1, 1, 4}, {7, 33, 16}, {256, 257, 16}, {1024, 512, 64}} {
					testKVWrite(g, from, cache, c.kLen, c.vLen, c.pageSize)
				}
			}
		}
	})
}

func testKVWrite(g *gputest.GPU, from, cache graph.Type, kLen, vLen, pageSize int) {
	const rows, pages = 5, 3
	what := fmt.Sprintf("%s in a cache of %s, %d and %d numbers, pages of %d", from, cache, kLen, vLen, pageSize)
	k, v := g.Random(rows*kLen, 1), g.Random(rows*vLen, 1)
	all := pages * pageSize * (kLen + vLen)
	want := bytes.Repeat([]byte{0xff}, int(cache.RowBytes(all)))
	var slots []int32
	for _, slot := range g.Rand.Perm(pages * pageSize)[:rows] {
		r, page, in := len(slots), slot/pageSize*pageSize*(kLen+vLen), slot%pageSize
		store(want, cache, page+in*kLen, k[r*kLen:(r+1)*kLen])
		store(want, cache, page+pageSize*kLen+in*vLen, v[r*vLen:(r+1)*vLen])
		slots = append(slots, int32(slot))
	}
	p := &KVWriteParams{
		Step: kernels.Step{Counts: g.Ints(rows, 1, 0), Slots: g.Ints(append(slots, 0, 0)...), PageShift: int32(math.Round(math.Log2(float64(pageSize))))},
		K:    g.Put(from, k), V: g.Put(from, v), Cache: g.Poisoned(len(want)), KLen: int32(kLen), VLen: int32(vLen),
	}
	kernel, err := KVWrite(g.Loader, from, cache)
	g.Must(err)
	g.Must(Launch(g.Stream, kernel, rows+unused, p))
	if !bytes.Equal(g.ReadBytes(p.Cache, len(want)), want) {
		g.Errorf("%s: the cache is not as it should be", what)
	}
}

// store writes numbers as a type from number at on.
func store(dst []byte, t graph.Type, at int, x []float32) {
	for i, v := range x {
		switch t {
		case graph.F32:
			binary.LittleEndian.PutUint32(dst[4*(at+i):], math.Float32bits(v))
		case graph.F16:
			binary.LittleEndian.PutUint16(dst[2*(at+i):], quant.F32ToF16(v))
		default:
			binary.LittleEndian.PutUint16(dst[2*(at+i):], quant.F32ToBF16(v))
		}
	}
}

package gputest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Attention is a problem of attention over a paged cache on the device, with what plain Go makes of it.
type Attention struct {
	Step         kernels.Step
	Q, Cache     driver.Ptr
	Sinks        driver.Ptr // 0 without them
	Rows         int
	Tiles, Pages int
	Want         []float64   // [rows, heads × vSize]
	Queries      []float32   // [rows, heads × kSize], as Q holds them in BF16
	Keys, Values [][]float32 // of each sequence, [length × kvHeads × size], as they are in the cache

	// Of a cache of I4, the residual cache with its page table, and what it has of each sequence.
	Newest, NewestPages      driver.Ptr
	newestKeys, newestValues [][]float32
}

// Shape describes an attention problem.
type Shape struct {
	Heads, KVHeads, KSize, VSize, PageSize, Window int
	Scale, Softcap                                 float64
	New, Length                                    []int      // of each sequence: new tokens, and all with them
	TileRows                                       int        // rows of a tile of prefill attention; 0 makes no tiles
	Type                                           graph.Type // of the cache: BF16, for which F32 stands too, F16, I8, F8 or I4
	InOrder                                        bool       // pages lie one behind the other
	Sinks, Bidirectional                           bool       // see graph.Attention
}

// NewAttention makes random queries and a cache whose pages are in random order. Slots that no sequence owns are poison.
func (g *GPU) NewAttention(s Shape) *Attention {
	a := &Attention{}
	total, seqPages, pages := 0, 1, 0
	for i, n := range s.Length {
		total += s.New[i]
		seqPages = max(seqPages, (n+s.PageSize-1)/s.PageSize)
		pages += (n + s.PageSize - 1) / s.PageSize
	}
	a.Rows, a.Pages = total, pages
	a.Queries = g.Random(total*s.Heads*s.KSize, 1)
	kLen, vLen := s.KVHeads*s.KSize, s.KVHeads*s.VSize
	cache := bytes.Repeat([]byte{0xff}, pages*s.PageBytes())
	order, table := g.Rand.Perm(pages), make([]int32, len(s.Length)*seqPages)
	newest := bytes.Repeat([]byte{0xff}, pages*s.halfPageBytes())
	if s.InOrder {
		slices.Sort(order)
	}
	var positions, rowSeq, qStart, kvLen, tiles []int32
	for i, n := range s.Length {
		keys, values := g.Random(n*kLen, 1), g.Random(n*vLen, 1)
		a.Keys, a.Values = append(a.Keys, keys), append(a.Values, values)
		if s.Type == graph.I4 {
			seqCache, seqNewest, newestKeys, newestValues := s.int4Cache(keys, values)
			a.newestKeys, a.newestValues = append(a.newestKeys, newestKeys), append(a.newestValues, newestValues)
			for p := range (n + s.PageSize - 1) / s.PageSize {
				at := order[0]
				order, table[i*seqPages+p] = order[1:], int32(at)
				copy(cache[at*s.PageBytes():], seqCache[p*s.PageBytes():(p+1)*s.PageBytes()])
				copy(newest[at*s.halfPageBytes():], seqNewest[p*s.halfPageBytes():(p+1)*s.halfPageBytes()])
			}
		}
		for p := range n {
			if s.Type == graph.I4 {
				break
			}
			if p%s.PageSize == 0 {
				table[i*seqPages+p/s.PageSize] = int32(order[0])
				order = order[1:]
			}
			page := cache[int(table[i*seqPages+p/s.PageSize])*s.PageBytes():]
			s.Store(page, p%s.PageSize, s.KSize, keys[p*kLen:(p+1)*kLen])
			s.Store(page[s.PartBytes(s.KSize):], p%s.PageSize, s.VSize, values[p*vLen:(p+1)*vLen])
		}
		qStart, kvLen = append(qStart, int32(len(rowSeq))), append(kvLen, int32(n))
		if s.TileRows > 0 && s.New[i] > 1 {
			for r := 0; r < s.New[i]; r += s.TileRows {
				tiles = append(tiles, int32(i), int32(len(rowSeq)+r))
			}
		}
		for r := range s.New[i] {
			rowSeq, positions = append(rowSeq, int32(i)), append(positions, int32(n-s.New[i]+r))
		}
	}
	qStart = append(qStart, int32(total))
	a.Q, a.Cache, a.Tiles = g.BF16(a.Queries), g.put(cache), len(tiles)/2
	a.Step = kernels.Step{
		Counts: g.Ints(int32(total), int32(len(s.Length)), 0), Positions: g.Ints(positions...), RowSeq: g.Ints(rowSeq...),
		QStart: g.Ints(qStart...), KVLen: g.Ints(kvLen...), Pages: g.Ints(table...), Tiles: g.Ints(append(tiles, 0)...),
		SeqPages: int32(seqPages), PageShift: int32(math.Log2(float64(s.PageSize)) + 0.5),
	}
	if s.Type == graph.I4 {
		a.Newest, a.NewestPages = g.put(newest), a.Step.Pages
	}
	var sinks []float32
	if s.Sinks {
		sinks = g.Random(s.Heads, 2)
		a.Sinks = g.F32(sinks)
	}
	a.compute(s, positions, rowSeq, sinks)
	return a
}

// PartBytes is what the keys of a page take, or the values: heads of size numbers, and their scales.
func (s Shape) PartBytes(size int) int {
	switch s.Type {
	case graph.I8:
		return s.PageSize * s.KVHeads * (size + 4)
	case graph.F8:
		return s.PageSize * s.KVHeads * size
	}
	return 2 * s.PageSize * s.KVHeads * size
}

// PageBytes is what a page takes.
func (s Shape) PageBytes() int {
	if s.Type == graph.I4 {
		return s.int4Bytes(s.PageSize)
	}
	return s.PartBytes(s.KSize) + s.PartBytes(s.VSize)
}

// halfPageBytes is what a page of the residual cache takes.
func (s Shape) halfPageBytes() int { return 2 * s.PageSize * s.KVHeads * (s.KSize + s.VSize) }

// Store puts a token's keys, or values, in their part of a page, and leaves in x what they are there.
func (s Shape) Store(part []byte, token, size int, x []float32) {
	from, scales := token*s.KVHeads*size, part[s.PageSize*s.KVHeads*size:]
	for h := range s.KVHeads {
		row, at := x[h*size:(h+1)*size], from+h*size
		switch s.Type {
		case graph.I8:
			codes := make([]int8, size)
			scale := quant.EncodeInt8(codes, row)
			binary.LittleEndian.PutUint32(scales[4*(h*s.PageSize+token):], math.Float32bits(scale))
			for i, c := range codes {
				part[at+i], row[i] = byte(c), float32(c)*scale
			}
		case graph.F8:
			for i, v := range row {
				part[at+i] = quant.F32ToE4M3(v)
				row[i] = quant.E4M3ToF32(part[at+i])
			}
		case graph.F16:
			for i, v := range row {
				half := quant.F32ToF16(v)
				binary.LittleEndian.PutUint16(part[2*(at+i):], half)
				row[i] = quant.F16ToF32(half)
			}
		default:
			for i, v := range row {
				binary.LittleEndian.PutUint16(part[2*(at+i):], quant.F32ToBF16(v))
			}
		}
	}
}

// compute is attention in float64.
func (a *Attention) compute(s Shape, positions, rowSeq []int32, sinks []float32) {
	share := s.Heads / s.KVHeads
	for r := range a.Rows {
		keys, values, last := a.Keys[rowSeq[r]], a.Values[rowSeq[r]], int(positions[r])
		if s.Bidirectional {
			last = s.Length[rowSeq[r]] - 1
		}
		first := 0
		if s.Window > 0 {
			first = max(0, last-s.Window+1)
		}
		for h := range s.Heads {
			q := a.Queries[(r*s.Heads+h)*s.KSize : (r*s.Heads+h+1)*s.KSize]
			out, sum, top := make([]float64, s.VSize), 0.0, math.Inf(-1)
			scores := make([]float64, last+1)
			at := func(p int) (k, v []float32) {
				if a.newestKeys != nil && p >= last-last%quant.Int4Group {
					return a.newestKeys[rowSeq[r]], a.newestValues[rowSeq[r]]
				}
				return keys, values
			}
			for p := first; p <= last; p++ {
				keys, _ := at(p)
				for i, x := range q {
					scores[p] += float64(x) * float64(keys[(p*s.KVHeads+h/share)*s.KSize+i])
				}
				scores[p] *= s.Scale
				if s.Softcap != 0 {
					scores[p] = s.Softcap * math.Tanh(scores[p]/s.Softcap)
				}
				top = max(top, scores[p])
			}
			if sinks != nil {
				top = max(top, float64(sinks[h]))
				sum = math.Exp(float64(sinks[h]) - top)
			}
			for p := first; p <= last; p++ {
				e := math.Exp(scores[p] - top)
				sum += e
				_, values := at(p)
				for i := range out {
					out[i] += e * float64(values[(p*s.KVHeads+h/share)*s.VSize+i])
				}
			}
			for i := range out {
				a.Want = append(a.Want, out[i]/sum)
			}
		}
	}
}

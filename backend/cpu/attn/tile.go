package attn

import (
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

const (
	keyTile     = 64  // keys that are scored at once
	Segment     = 256 // keys that share a running maximum; see the package's documentation
	convertRows = 24  // rows from which on keys and values are converted once beforehand

	// maskValue is the score of a key that a row must not attend to, and the maximum before any key: finite, so that nothing
	// becomes NaN, and so low that its power of two is 0 relative to any real score.
	maskValue = -0x1p100
)

// Head is the attention parameters of a key head.
type Head struct {
	Cache   *Cache
	Scale   float32
	Softcap float32 // 0: none
}

// span is the keys of each row.
type span struct {
	low  []int32 // the first
	high []int32 // and their end; of a row that has none it is not above low
	base []int32 // of a row of a token tree, the tree's first key; else high
}

// Tile is one thread's working memory: rows of Q, each a query head of a token, that attend to one key head.
type Tile struct {
	k   *kernels
	vec vec.Ops

	keySize, valueSize int
	stride             int // floats from one row's output to the next: valueSize in whole pairs of vectors

	rows int
	span           // keys that a row attends to
	tree []uint64  // of those from base on, which it does, a bit each
	q    []float32 // [row][keySize], scaled

	acc, total         []float32 // [row][stride] of the segment and of all segments merged so far
	rowMax, rowSum     []float32 // [row] running maximum of scores, as an exponent of 2, and running sum
	totalMax, totalSum []float32 // [row] likewise of all segments
	rescale            []float32 // [row] factor of acc when rowMax grows
	scores             []float32 // [row][keyTile]
	keys               []float32 // [keyTile/Block][keySize][Block], converted
	values             []float32 // [keyTile][stride], converted
	row                []float32 // [keySize] of a latent cache, converted
	chosen             []float32 // positions of the keys, where they are chosen; nil: they are those of the sequence
	line               []int32   // positions of the last keys, see Line
	moved              []byte    // [keyTile/Block] blocks with copies of keys that lie apart
	newest             []int32   // [row] first key that is read from a residual cache, see Int4Segment
	part               span      // what is read from one of the two caches

	// Where keys and values are bytes, see int8Kernels:
	qScale []float32 // [row]
	qBias  []int32   // [row]
	pScale []float32 // [row]
	ones   []float32 // [keySize] of 1

	maskedScores    [keyTile]float32 // scores of masked keys
	scales          [keyTile]float32 // of the tile's values, where they are bytes
	blocks          [2 * ahead]*byte // of the tile's keys, and of the next tile's
	convertedKeys   [2 * ahead]*byte // where they are converted to; nothing is prefetched from there
	convertedValues [1 + ahead]*byte
}

// stride rounds the size of an output up to whole pairs of vectors.
func (k *kernels) stride(valueSize int) int {
	return (valueSize + 2*k.lanes - 1) / (2 * k.lanes) * 2 * k.lanes
}

// TileFloats is the memory that NewTile needs.
func TileFloats(tier gemm.Tier, rows, keySize, valueSize int) int {
	stride := kernelsOf(tier).stride(valueSize)
	return rows*(keySize+2*stride+keyTile+15) + keyTile*(keySize+stride) + movedFloats(keySize, valueSize) + keySize + 16
}

// NewTile lays a tile of up to so many rows out in mem, which holds TileFloats and whose contents need not last from one use to the next.
func NewTile(tier gemm.Tier, mem []float32, rows, keySize, valueSize int) *Tile {
	t := &Tile{k: kernelsOf(tier), vec: vec.For(tier), keySize: keySize, valueSize: valueSize}
	t.stride = t.k.stride(valueSize)
	take := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	t.keys, t.values = take(keyTile*keySize), take(keyTile*t.stride)
	t.moved = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(take(movedFloats(keySize, valueSize))))), 4*movedFloats(keySize, valueSize))
	for i := range t.convertedKeys {
		t.convertedKeys[i] = (*byte)(unsafe.Pointer(&t.keys[i%ahead*Block*keySize]))
	}
	for i := range t.convertedValues {
		t.convertedValues[i] = (*byte)(unsafe.Pointer(&t.values[0]))
	}
	t.scores = take(rows * keyTile)
	t.q, t.acc, t.total = take(rows*keySize), take(rows*t.stride), take(rows*t.stride)
	t.rowMax, t.rowSum, t.totalMax, t.totalSum, t.rescale = take(rows), take(rows), take(rows), take(rows), take(rows)
	t.qScale, t.pScale = take(rows), take(rows)
	ints := func() []int32 { return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(take(rows)))), rows) }
	t.low, t.high, t.base, t.qBias = ints(), ints(), ints(), ints()
	t.part, t.newest = span{ints(), ints(), ints()}, ints()
	t.tree = make([]uint64, rows)
	t.row, t.ones = take(keySize), make([]float32, keySize) // the ones not in mem, which others write to between the steps
	for i := range t.ones {
		t.ones[i] = 1
	}
	for i := range t.maskedScores {
		t.maskedScores[i] = maskValue
	}
	return t
}

// Reset empties the tile.
func (t *Tile) Reset() { t.rows, t.line = 0, nil }

// AddQueries adds q, the heads of one token that share the key head, as rows that attend to keys [low, high).
func (t *Tile) AddQueries(h Head, q []float32, low, high int) {
	t.AddTreeQueries(h, q, low, high, high, 0)
}

// AddTreeQueries is AddQueries of a token in a token tree: of the keys from base on, bit i of mask says that it attends to key base+i.
func (t *Tile) AddTreeQueries(h Head, q []float32, low, high, base int, mask uint64) {
	factor := h.Scale
	if h.Softcap == 0 {
		factor *= math.Log2E
	}
	first := t.rows
	for ; len(q) > 0; q = q[t.keySize:] {
		i := t.rows
		t.vec.Multiply(t.q[i*t.keySize:(i+1)*t.keySize], q, factor)
		t.low[i], t.high[i], t.base[i], t.tree[i] = int32(low), int32(high), int32(base), mask
		t.totalMax[i], t.totalSum[i] = maskValue, 0
		clear(t.total[i*t.stride : (i+1)*t.stride])
		t.rows++
	}
	if h.Cache.int8Products() {
		t.quantizeQ(first, t.rows)
	}
}

// bounds are the first key that any row in [from, to) attends to and the end of the keys that they do; 0 where they attend to none.
func (t *Tile) bounds(from, to int) (low, high int) {
	low = math.MaxInt
	for i := from; i < to; i++ {
		if t.low[i] < t.high[i] {
			low, high = min(low, int(t.low[i])), max(high, int(t.high[i]))
		}
	}
	return low, high
}

// Segment attends to the keys of KV segment s, which are in the pages of the head's sequence, and leaves the rows' results
// of it in the tile: see Partial and Merge.
func (t *Tile) Segment(h Head, pages []int32, head, s int) {
	t.begin()
	t.attendSegment(h, pages, head, s)
}

// begin empties the rows' results of a segment.
func (t *Tile) begin() {
	for i := range t.rows {
		t.rowMax[i], t.rowSum[i] = maskValue, 0
	}
	clear(t.acc[:t.rows*t.stride])
}

// attendSegment adds the keys of a segment to the rows' results of it.
func (t *Tile) attendSegment(h Head, pages []int32, head, s int) {
	low, high := t.bounds(0, t.rows)
	end := min((s+1)*Segment, high)
	for from := s * Segment; from < end; from += keyTile {
		if from+keyTile > low {
			t.attendKeyTile(h, pages, head, from, min(from+keyTile, end), high)
		}
	}
}

// ChosenSegment is Segment of keys at chosen positions of a sequence in a latent cache, which count as a sequence of their own.
func (t *Tile) ChosenSegment(h Head, pages []int32, positions []float32, s int) {
	t.chosen = positions
	t.Segment(h, pages, 0, s)
	t.chosen = nil
}

// Merge combines the segment's results of every row that attends to it with the totals.
func (t *Tile) Merge(s int) {
	for i := range t.rows {
		if int(t.low[i]) < (s+1)*Segment && int(t.high[i]) > s*Segment {
			t.mergeRow(i, t.acc[i*t.stride:][:t.valueSize], t.rowMax[i], t.rowSum[i])
		}
	}
}

// mergeRow is the one way in which results of segments are combined, so that the thread that computed them makes no difference.
func (t *Tile) mergeRow(row int, acc []float32, rowMax, rowSum float32) {
	f, g := float32(1), float32(1)
	high := max(t.totalMax[row], rowMax)
	switch {
	case t.totalMax[row] == maskValue:
		f = 0
	case rowMax < high:
		g = exp2(rowMax - high)
	default:
		f = exp2(t.totalMax[row] - high)
	}
	t.vec.Axpby(t.total[row*t.stride:][:t.valueSize], acc, f, g)
	t.totalMax[row], t.totalSum[row] = high, t.totalSum[row]*f+rowSum*g
}

// Sink adds a score without a key to a row's totals once all segments are merged: an attention sink, which takes part in the sum.
func (t *Tile) Sink(row int, score float32) {
	nothing := t.acc[row*t.stride:][:t.valueSize]
	clear(nothing)
	t.mergeRow(row, nothing, score*math.Log2E, 1)
}

// Out is the attention's result for a row, once all segments are merged.
func (t *Tile) Out(row int, out []float32) {
	t.vec.Multiply(out[:t.valueSize], t.total[row*t.stride:], 1/t.totalSum[row])
}

// OutPart is Out where other devices have other keys of the row: behind its numbers, in place of a result of no keys zeroes, stands the logarithm of its sum of exponentials.
func (t *Tile) OutPart(row int, out []float32) {
	if t.totalMax[row] == maskValue {
		clear(out)
		out[t.valueSize] = float32(math.Inf(-1))
		return
	}
	t.Out(row, out)
	out[t.valueSize] = float32(math.Ln2*float64(t.totalMax[row]) + math.Log(float64(t.totalSum[row])))
}

// PartialFloats is the size of what Partial stores.
func PartialFloats(valueSize int) int { return (valueSize + 2 + 15) / 16 * 16 }

// Partial stores the segment's result of a row, for CombinePartials.
func (t *Tile) Partial(row int, dst []float32) {
	copy(dst, t.acc[row*t.stride:][:t.valueSize])
	dst[t.valueSize], dst[t.valueSize+1] = t.rowMax[row], t.rowSum[row]
}

// CombinePartials is the split-KV combine: it merges n stored results, step floats apart, in order, into row 0.
func (t *Tile) CombinePartials(partials []float32, step, n int) {
	clear(t.total[:t.stride])
	t.totalMax[0], t.totalSum[0] = maskValue, 0
	for i := range n {
		p := partials[i*step:]
		t.mergeRow(0, p[:t.valueSize], p[t.valueSize], p[t.valueSize+1])
	}
}

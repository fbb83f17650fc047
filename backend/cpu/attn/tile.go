package attn

import (
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

const (
	keyTile  = 64  // keys that are scored at once
	Segment  = 256 // keys that share a running maximum; see the package's documentation
	manyRows = 24  // lanes from which on keys and values are converted once beforehand

	// masked is the score of a key that a lane may not look at, and the maximum before any key: finite, so that nothing
	// becomes NaN, and so low that its power of two is 0 beside any real score.
	masked = -0x1p100
)

// Head says how one key head is attended to.
type Head struct {
	Cache   *Cache
	Scale   float32
	Softcap float32 // 0: none
}

// Tile is one thread's working memory: some lanes, each a query head of a token, against one key head.
type Tile struct {
	k   *kernels
	vec vec.Ops

	keySize, valueSize int
	stride             int // floats from one lane's output to the next: valueSize in whole pairs of vectors

	lanes int
	low   []int32   // first key that a lane may look at
	high  []int32   // and the first that it may not any more
	q     []float32 // [lane][keySize], scaled

	acc, total       []float32 // [lane][stride] of the segment and of all segments merged so far
	top, sum         []float32 // [lane] running maximum of scores, in powers of two, and running sum
	totalTop, merged []float32 // [lane] likewise of all segments
	correct          []float32 // [lane]
	scores           []float32 // [lane][keyTile]
	keys             []float32 // [keyTile/Block][keySize][Block], converted
	values           []float32 // [keyTile][stride], converted

	// Where keys and values are bytes, see byteKernels:
	queryScale []float32 // [lane]
	queryBias  []int32   // [lane]
	powerScale []float32 // [lane]
	flat       []float32 // [keySize] ones

	masked          [keyTile]float32 // scores that no lane may look at
	scales          [keyTile]float32 // of the tile's values, where they are bytes
	blocks          [2 * ahead]*byte // of the tile's keys, and of the next tile's
	convertedKeys   [2 * ahead]*byte // where they are converted to; there is nothing to fetch ahead
	convertedValues [1 + ahead]*byte
}

// stride rounds the size of an output up to whole pairs of vectors.
func (k *kernels) stride(valueSize int) int {
	return (valueSize + 2*k.lanes - 1) / (2 * k.lanes) * 2 * k.lanes
}

// TileFloats is the memory that NewTile needs.
func TileFloats(tier gemm.Tier, lanes, keySize, valueSize int) int {
	stride := kernelsOf(tier).stride(valueSize)
	return lanes*(keySize+2*stride+keyTile+10) + keyTile*(keySize+stride) + keySize + 16
}

// NewTile lays a tile of up to lanes lanes out in mem, which holds TileFloats.
func NewTile(tier gemm.Tier, mem []float32, lanes, keySize, valueSize int) *Tile {
	t := &Tile{k: kernelsOf(tier), vec: vec.For(tier), keySize: keySize, valueSize: valueSize}
	t.stride = t.k.stride(valueSize)
	take := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	t.keys, t.values = take(keyTile*keySize), take(keyTile*t.stride)
	for i := range t.convertedKeys {
		t.convertedKeys[i] = (*byte)(unsafe.Pointer(&t.keys[i%ahead*Block*keySize]))
	}
	for i := range t.convertedValues {
		t.convertedValues[i] = (*byte)(unsafe.Pointer(&t.values[0]))
	}
	t.scores = take(lanes * keyTile)
	t.q, t.acc, t.total = take(lanes*keySize), take(lanes*t.stride), take(lanes*t.stride)
	t.top, t.sum, t.totalTop, t.merged, t.correct = take(lanes), take(lanes), take(lanes), take(lanes), take(lanes)
	t.queryScale, t.powerScale = take(lanes), take(lanes)
	ints := func() []int32 { return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(take(lanes)))), lanes) }
	t.low, t.high, t.queryBias = ints(), ints(), ints()
	t.flat = take(keySize)
	for i := range t.flat {
		t.flat[i] = 1
	}
	for i := range t.masked {
		t.masked[i] = masked
	}
	return t
}

// Begin empties the tile.
func (t *Tile) Begin() { t.lanes = 0 }

// Add makes q, the heads of one token that share the key head, lanes that may look at keys [low, high).
func (t *Tile) Add(h Head, q []float32, low, high int) {
	factor := h.Scale
	if h.Softcap == 0 {
		factor *= math.Log2E
	}
	first := t.lanes
	for ; len(q) > 0; q = q[t.keySize:] {
		i := t.lanes
		t.vec.Multiply(t.q[i*t.keySize:(i+1)*t.keySize], q, factor)
		t.low[i], t.high[i] = int32(low), int32(high)
		t.totalTop[i], t.merged[i] = masked, 0
		clear(t.total[i*t.stride : (i+1)*t.stride])
		t.lanes++
	}
	if h.Cache.Element == I8 {
		t.roundQueries(first, t.lanes)
	}
}

// bounds are the first key that any lane in [from, to) may look at and the first that none may.
func (t *Tile) bounds(from, to int) (low, high int) {
	low, high = int(t.low[from]), int(t.high[from])
	for i := from + 1; i < to; i++ {
		low, high = min(low, int(t.low[i])), max(high, int(t.high[i]))
	}
	return low, high
}

// Segment attends to the keys of segment s, which lie in the pages of the head's sequence, and leaves the lanes' results
// of it in the tile: see Partial and Merge.
func (t *Tile) Segment(h Head, pages []int32, head, s int) {
	for i := range t.lanes {
		t.top[i], t.sum[i] = masked, 0
	}
	clear(t.acc[:t.lanes*t.stride])
	low, high := t.bounds(0, t.lanes)
	end := min((s+1)*Segment, high)
	for from := s * Segment; from < end; from += keyTile {
		if from+keyTile > low {
			t.walk(h, pages, head, from, min(from+keyTile, end), high)
		}
	}
}

// Merge brings the segment's results of every lane that may look at it into the totals.
func (t *Tile) Merge(s int) {
	for i := range t.lanes {
		if int(t.low[i]) < (s+1)*Segment && int(t.high[i]) > s*Segment {
			t.join(i, t.acc[i*t.stride:][:t.valueSize], t.top[i], t.sum[i])
		}
	}
}

// join is the one way in which results of segments come together, whoever computed them.
func (t *Tile) join(lane int, acc []float32, top, sum float32) {
	f, g := float32(1), float32(1)
	high := max(t.totalTop[lane], top)
	switch {
	case t.totalTop[lane] == masked:
		f = 0
	case top < high:
		g = exp2(top - high)
	default:
		f = exp2(t.totalTop[lane] - high)
	}
	t.vec.Merge(t.total[lane*t.stride:][:t.valueSize], acc, f, g)
	t.totalTop[lane], t.merged[lane] = high, t.merged[lane]*f+sum*g
}

// Sink brings a score without a key into a lane's totals once all segments are merged: it takes its part of the sum.
func (t *Tile) Sink(lane int, score float32) {
	nothing := t.acc[lane*t.stride:][:t.valueSize]
	clear(nothing)
	t.join(lane, nothing, score*math.Log2E, 1)
}

// Out is the attention's result for a lane, once all segments are merged.
func (t *Tile) Out(lane int, out []float32) {
	t.vec.Multiply(out[:t.valueSize], t.total[lane*t.stride:], 1/t.merged[lane])
}

// PartialFloats is the size of what Partial stores.
func PartialFloats(valueSize int) int { return (valueSize + 2 + 15) / 16 * 16 }

// Partial stores the segment's result of a lane, for MergePartials.
func (t *Tile) Partial(lane int, dst []float32) {
	copy(dst, t.acc[lane*t.stride:][:t.valueSize])
	dst[t.valueSize], dst[t.valueSize+1] = t.top[lane], t.sum[lane]
}

// MergePartials merges n stored results, step floats apart, in order, into lane 0.
func (t *Tile) MergePartials(partials []float32, step, n int) {
	clear(t.total[:t.stride])
	t.totalTop[0], t.merged[0] = masked, 0
	for i := range n {
		p := partials[i*step:]
		t.join(0, p[:t.valueSize], p[t.valueSize], p[t.valueSize+1])
	}
}

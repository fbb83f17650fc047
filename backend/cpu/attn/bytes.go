package attn

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Keys and values that are bytes are multiplied as integers, four at a time. In a block of 16 tokens a head's keys lie as
// [size/4][16 tokens][4], 128 too large,
// and its values as [4][size][4 tokens], so that again a lane of a vector is a key, or a dimension
// of the output. The other side is rounded to 16 bits, in two bytes that are multiplied one after the other: queries as
// they come, the powers of a tile's scores (times the scales of its values) once these are known. That costs 2⁻¹⁶ of
// the largest of them, where rounding keys and values to bytes has cost 2⁻⁸. Integer sums are exact in any order.

// A scoreFunc sets out[m][·], rows of keyTile floats, to the scores of a fixed number of rows of rounded queries of the given
// size with two vectors of keys of the blocks at b; pair, off and gap are those of productFunc. The sums start from bias[m],
// which makes up for keys being 128 too large, and are then multiplied by scale[m] and by the keys' scales, which lie
// `scales` bytes into their block.
type scoreFunc func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int)

// A valueFunc sets out[m][·], rows ld bytes apart, to itself times correct[m] plus the products of a fixed number of rows of
// rounded powers, of keyTile floats, with two vectors of columns of the values of some blocks, times scale[m].
type valueFunc func(out *float32, ld int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, correct *float32)

// byteKernels are one tier's. The round functions make 16-bit integers, of at most the given size, of rows of n numbers x·by
// in place: groups of four, whose layout is the tier's own business, in the first half of each row. scale is what one of
// them stands for and bias is -128 times the sum of a row's. Powers are positive.
type byteKernels struct {
	scores       []scoreFunc // by rows - 1
	values       []valueFunc
	roundQueries func(x, by *float32, n, rows int, most float32, scale *float32, bias *int32)
	roundPowers  func(x, by *float32, n, rows int, most float32, scale *float32)
}

// mostLevel is the largest of the integers, 127·256 + 127; with long keys they are smaller, so that 32 bits hold the sums.
const mostLevel = 32639

func (t *Tile) roundQueries(from, to int) {
	most := min(mostLevel, float32(1<<24/t.keySize))
	t.k.bytes.roundQueries(&t.q[from*t.keySize], &t.flat[0], t.keySize, to-from, most, &t.queryScale[from], &t.queryBias[from])
}

// roundPowers rounds what softmax left of scores, times the scales of the tile's first n values; what comes after those may
// never have been written.
func (t *Tile) roundPowers(c *Cache, n int) {
	for i, b := range t.blocks[:ahead] {
		scales := (*[Block]float32)(unsafe.Pointer(move(b, c.scaleOffset()+4*Block)))
		*(*[Block]float32)(t.scales[i*Block:]) = *scales
	}
	clear(t.scales[n:])
	t.k.bytes.roundPowers(&t.scores[0], &t.scales[0], keyTile, t.lanes, mostLevel, &t.powerScale[0])
}

// scoreBytes computes the products of some lanes with the tile's first n keys.
func (t *Tile) scoreBytes(c *Cache, lane, lanes, n int) {
	product := t.k.bytes.scores[lanes-1]
	for p := 0; p < n; p += 2 * t.k.lanes {
		pair, gap := 0, 4*t.k.lanes // see score
		if t.k.lanes == Block {
			pair, gap = 8, 0
		}
		product(&t.scores[lane*keyTile+p], &t.q[lane*t.keySize], &t.blocks[p/Block], pair, 0, gap, t.keySize,
			&t.queryScale[lane], &t.queryBias[lane], c.scaleOffset())
	}
}

// gatherBytes adds the tile's first n values, times the lanes' powers, to what was summed before, corrected. It reads up
// to 124 bytes behind a block's values, where the scales are.
func (t *Tile) gatherBytes(c *Cache, lane, lanes, n int) {
	product := t.k.bytes.values[lanes-1]
	for col := 0; col < t.stride; col += 2 * t.k.lanes {
		product(&t.acc[lane*t.stride+col], 4*t.stride, &t.scores[lane*keyTile], &t.blocks[0], 0, c.valueOffset()+4*col, 4*t.k.lanes,
			t.valueSize, (n+Block-1)/Block, &t.powerScale[lane], &t.correct[lane])
	}
}

// writeKey stores a token's key in its block of a page and returns its scale.
func (c *Cache) writeKey(block []byte, token int, x []float32, scratch []int8) float32 {
	scale := quant.EncodeInt8(scratch, x)
	for i, v := range scratch[:len(x)] {
		block[i/4*4*Block+4*token+i%4] = byte(v) ^ 0x80
	}
	return scale
}

// writeValue stores a token's value.
func (c *Cache) writeValue(block []byte, token int, x []float32, scratch []int8) float32 {
	scale := quant.EncodeInt8(scratch, x)
	group := block[token/4*4*len(x)+token%4:]
	for i, v := range scratch[:len(x)] {
		group[4*i] = byte(v)
	}
	return scale
}

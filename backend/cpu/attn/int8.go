package attn

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Int8 keys and values are multiplied as integers, four at a time. In a block of 16 tokens a head's keys are stored as
// [size/4][16 tokens][4], with an offset of 128,
// and its values as [4][size][4 tokens], so that again a row of a vector is a key, or a dimension
// of the output. The other operand, Q or P, is quantized to 16 bits, in two bytes that are multiplied one after the other: Q as
// queries are added, a key tile's P (times the scales of its values) after the softmax. That costs 2⁻¹⁶ of
// the largest of them, where quantizing keys and values to bytes has cost 2⁻⁸. Integer sums are exact in any order.

// A qkInt8Func is QKᵀ of an int8 cache: it sets out[m][·], rows of keyTile floats, to the scores of a fixed number of rows of quantized
// queries of the given size with two vectors of keys of the blocks at b; pair, off and gap are those of matmulFunc. The sums start
// from bias[m], which corrects for the keys' offset of 128, and are then multiplied by scale[m] and by the keys' scales, which are
// `scales` bytes into their block.
type qkInt8Func func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int)

// A pvInt8Func is PV of an int8 cache: it sets out[m][·], rows ld bytes apart, to itself times rescale[m] plus the products of a fixed
// number of rows of quantized P, of keyTile floats, with two vectors of columns of the values of some blocks, times scale[m].
type pvInt8Func func(out *float32, ld int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, rescale *float32)

// int8Kernels are one tier's. The quantize functions make 16-bit integers, of at most the given size, of rows of n numbers x·by
// in place: groups of four, whose layout depends on the tier, in the first half of each row. scale is the step of the
// integers and bias is -128 times the sum of a row's. P is not negative.
type int8Kernels struct {
	qk        []qkInt8Func // by rows - 1
	pv        []pvInt8Func
	quantizeQ func(x, by *float32, n, rows int, most float32, scale *float32, bias *int32)
	quantizeP func(x, by *float32, n, rows int, most float32, scale *float32)
}

// maxLevel is the largest of the integers, 127·256 + 127; with long keys they are smaller, so that 32 bits hold the sums.
const maxLevel = 32639

func (t *Tile) quantizeQ(from, to int) {
	most := min(maxLevel, float32(1<<24/t.keySize))
	t.k.i8.quantizeQ(&t.q[from*t.keySize], &t.ones[0], t.keySize, to-from, most, &t.qScale[from], &t.qBias[from])
}

// quantizeP quantizes P, times the scales of the key tile's first n values; the scales after those may never have been written.
func (t *Tile) quantizeP(c *Cache, n int) {
	for i, b := range t.blocks[:ahead] {
		scales := (*[Block]float32)(unsafe.Pointer(offset(b, c.scaleOffset()+4*Block)))
		*(*[Block]float32)(t.scales[i*Block:]) = *scales
	}
	clear(t.scales[n:])
	t.k.i8.quantizeP(&t.scores[0], &t.scales[0], keyTile, t.rows, maxLevel, &t.pScale[0])
}

// scoreInt8 computes the scores of some rows with the key tile's first n keys.
func (t *Tile) scoreInt8(c *Cache, row, rows, n int) {
	product := t.k.i8.qk[rows-1]
	for p := 0; p < n; p += 2 * t.k.lanes {
		pair, gap := 0, 4*t.k.lanes // see scoreKeys
		if t.k.lanes == Block {
			pair, gap = 8, 0
		}
		product(&t.scores[row*keyTile+p], &t.q[row*t.keySize], &t.blocks[p/Block], pair, 0, gap, t.keySize,
			&t.qScale[row], &t.qBias[row], c.scaleOffset())
	}
}

// accumulateInt8 adds P times the key tile's first n values to the rescaled accumulators. It reads up
// to 124 bytes behind a block's values, where the scales are.
func (t *Tile) accumulateInt8(c *Cache, row, rows, n int) {
	product := t.k.i8.pv[rows-1]
	for col := 0; col < t.stride; col += 2 * t.k.lanes {
		product(&t.acc[row*t.stride+col], 4*t.stride, &t.scores[row*keyTile], &t.blocks[0], 0, c.valueOffset()+4*col, 4*t.k.lanes,
			t.valueSize, (n+Block-1)/Block, &t.pScale[row], &t.rescale[row])
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

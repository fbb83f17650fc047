package attn

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Int4 keys and values lie in groups of 32 tokens (quant.Int4Group), of each head one behind the other:
//
//	16 bytes for each channel of the keys: the codes of tokens 0 to 15 in the lower halves, those of tokens 16 to 31 in the upper ones
//	a scale and a minimum for each channel
//	half a byte for each number of the values, token by token: of a run that shares a scale the first half of the channels in the lower halves
//	a scale and a minimum for each token and run
//
// They are converted to float32 by the key tile. Tokens whose group is not full are in a residual cache of F16 alone, and so are, for a query, those of its own group.

// An int4Func converts n times 16 bytes of codes, each with a scale and a minimum of its own: 16 numbers of the lower halves go to dst, step bytes further on each time, and
// those of the upper ones second bytes behind them. What lies next bytes behind codes and ranges is prefetched.
type int4Func func(dst *float32, codes *byte, ranges *uint16, n, step, second, next int)

// int4Halvings: a group is two blocks.
const int4Halvings = 1

// int4Bytes is the size of a head's group.
func (c *Cache) int4Bytes() int {
	return c.int4Values() + quant.Int4Group*(c.ValueSize/2+quant.Int4RangeBytes*c.ValueSize/quant.Int4Run(c.ValueSize))
}

// int4Values is where a group's values begin, behind the keys and their ranges.
func (c *Cache) int4Values() int { return (quant.Int4Group/2 + quant.Int4RangeBytes) * c.KeySize }

// putRange writes a scale and a minimum.
func putRange(dst []uint16, i int, r quant.Int4Range) { dst[2*i], dst[2*i+1] = r.Scale, r.Min }

// WriteInt4 stores a group's keys, [32][key size], and values, [32][value size], of a head. slot is that of any of its tokens.
func (c *Cache) WriteInt4(slot, head int, k, v []float32) {
	const tokens = quant.Int4Group
	group := c.Data[c.block(slot/c.PageSize, slot%c.PageSize/Block, head):][:c.int4Bytes()]
	keys, values := group[:c.int4Values()], group[c.int4Values():]
	ranges := numbers[uint16](keys[tokens/2*c.KeySize:])
	for i := range c.KeySize {
		r := quant.Int4RangeOf(k[i:], tokens, c.KeySize)
		putRange(ranges, i, r)
		for j := range tokens / 2 {
			keys[i*tokens/2+j] = r.Code(k[j*c.KeySize+i]) | r.Code(k[(j+tokens/2)*c.KeySize+i])<<4
		}
	}
	run := quant.Int4Run(c.ValueSize)
	ranges = numbers[uint16](values[tokens/2*c.ValueSize:])
	for i := range tokens * c.ValueSize / run {
		x := v[i*run : (i+1)*run]
		r := quant.Int4RangeOf(x, run, 1)
		putRange(ranges, i, r)
		for j := range run / 2 {
			values[i*run/2+j] = r.Code(x[j]) | r.Code(x[j+run/2])<<4
		}
	}
}

// ReadHead makes float32 of a head's keys and values of one token in a cache of F16.
func (c *Cache) ReadHead(slot, head int, k, v []float32) {
	page, in := slot/c.PageSize, slot%c.PageSize
	block := c.Data[c.block(page, in/Block, head):][:c.blockBytes()]
	keys, values := numbers[uint16](block[:c.valueOffset()]), numbers[uint16](block[c.valueOffset():])
	for i := range k {
		k[i] = quant.F16ToF32(keys[i*Block+in%Block])
	}
	for i := range v {
		v[i] = quant.F16ToF32(values[in%Block*c.ValueSize+i])
	}
}

// Newest says that the last n rows that were added read the keys from first on from a residual cache.
func (t *Tile) Newest(n, first int) {
	for i := t.rows - n; i < t.rows; i++ {
		t.newest[i] = int32(first)
	}
}

// Int4Segment is Segment of a cache of I4, whose newest tokens are in a residual cache with pages of its own.
func (t *Tile) Int4Segment(h Head, pages []int32, residual *Cache, residualPages []int32, head, s int) {
	t.begin()
	whole, line := t.span, t.line
	for i := range t.rows {
		end := min(whole.high[i], t.newest[i])
		t.part.low[i], t.part.high[i], t.part.base[i] = whole.low[i], end, end
	}
	t.span, t.line = t.part, nil
	t.attendSegment(h, pages, head, s)
	for i := range t.rows {
		t.part.low[i], t.part.high[i], t.part.base[i] = max(whole.low[i], t.newest[i]), whole.high[i], whole.base[i]
	}
	t.line = line
	h.Cache = residual
	t.attendSegment(h, residualPages, head, s)
	t.span = whole
}

// convertInt4 makes float32 of the key tile's first n keys and values.
func (t *Tile) convertInt4(c *Cache, n int) {
	const tokens = quant.Int4Group
	run := quant.Int4Run(c.ValueSize)
	for i := 0; i*tokens < n; i++ {
		group := t.blocks[i*tokens/Block]
		next := int(uintptr(unsafe.Pointer(t.blocks[ahead+i*tokens/Block])) - uintptr(unsafe.Pointer(group)))
		t.k.int4(&t.keys[i*tokens*t.keySize], group, (*uint16)(unsafe.Pointer(offset(group, tokens/2*c.KeySize))), c.KeySize, 4*Block, 4*Block*c.KeySize, next)
		values := offset(group, c.int4Values())
		ranges := (*uint16)(unsafe.Pointer(offset(values, tokens/2*c.ValueSize)))
		if run == tokens { // rows without a gap between them
			t.k.int4(&t.values[i*tokens*t.stride], values, ranges, tokens*c.ValueSize/run, 4*run, 4*run/2, next)
			continue
		}
		for j := range tokens {
			halves(t.values[(i*tokens+j)*t.stride:][:run], offset(values, j*run/2), offset(ranges, quant.Int4RangeBytes*j))
		}
	}
}

// halves converts a run of numbers.
func halves(dst []float32, codes *byte, ranges *uint16) {
	scale, minimum := quant.Int4Range{Scale: *ranges, Min: *offset(ranges, 2)}.Floats()
	half := len(dst) / 2
	for i, b := range unsafe.Slice(codes, half) {
		dst[i], dst[i+half] = scale*float32(b&15)+minimum, scale*float32(b>>4)+minimum
	}
}

// genericInt4 is an int4Func in plain Go.
func genericInt4(dst *float32, codes *byte, ranges *uint16, n, step, second, _ int) {
	for i := range n {
		scale, minimum := quant.Int4Range{Scale: *offset(ranges, 4*i), Min: *offset(ranges, 4*i+2)}.Floats()
		low, high := unsafe.Slice(offset(dst, i*step), Block), unsafe.Slice(offset(dst, i*step+second), Block)
		for j, b := range unsafe.Slice(offset(codes, Block*i), Block) {
			low[j], high[j] = scale*float32(b&15)+minimum, scale*float32(b>>4)+minimum
		}
	}
}

package attn

import (
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/quant"
)

// Block is how many tokens lie together in a page; a page is a multiple of it.
const Block = 16

// Element is the number type of a cache.
type Element uint8

// The elements, as package quant defines them.
const (
	F32 Element = iota
	F16
	BF16
	I8 // with a float32 scale for each head of a token; keys are stored with an offset of 128
	I4 // in groups of tokens, which are written at once: see int4.go
	elementCount
)

// Bytes is the size of a number; of I4 there are two in a byte.
func (e Element) Bytes() int {
	return [...]int{4, 2, 2, 1}[e]
}

// Cache is the pages of one layer. With I8 the size of a key is a multiple of 4, and at least 8.
type Cache struct {
	Element            Element
	Heads              int // key heads
	KeySize, ValueSize int // numbers of a head
	PageSize           int // tokens, a multiple of Block
	Data               []byte
	// Latent: a row is a key alone, of one head, and its value the first ValueSize numbers of it. A block has its rows one behind the
	// other, [16 tokens][KeySize], and then, with I8, their 16 scales; they are always converted.
	Latent bool
}

// block is the offset of a head's keys in one block of a page, in bytes; values follow at valueOffset. With I4 it is that of the block's group.
func (c *Cache) block(page, block, head int) int {
	size, halvings := c.stored()
	return ((page*(c.PageSize/Block>>halvings)+block>>halvings)*c.Heads + head) * size
}

// stored is the size of what a head has in one piece, a block or with I4 a group, and how often the number of blocks is halved to get that of such pieces.
func (c *Cache) stored() (size, halvings int) {
	if c.Element == I4 {
		return c.int4Bytes(), int4Halvings
	}
	return c.blockBytes(), 0
}

// blockBytes is the size of a head's block of keys and values.
func (c *Cache) blockBytes() int {
	switch {
	case c.Element == I8 && c.Latent:
		return c.scaleOffset() + 4*Block
	case c.Element == I8:
		return c.scaleOffset() + 2*4*Block
	}
	return c.scaleOffset()
}

func (c *Cache) valueOffset() int { return Block * c.KeySize * c.Element.Bytes() }

// scaleOffset is the offset of the block's 16 scales of keys, and then its 16 scales of values: with I8 only.
func (c *Cache) scaleOffset() int {
	if c.Latent {
		return Block * c.KeySize * c.Element.Bytes()
	}
	return Block * (c.KeySize + c.ValueSize) * c.Element.Bytes()
}

// int8Products reports whether bytes are multiplied as they are.
func (c *Cache) int8Products() bool { return c.Element == I8 && !c.Latent }

// WriteLatent stores one token's row at a slot of a latent cache.
func (c *Cache) WriteLatent(o vec.Ops, slot int, row []float32) {
	page, in := slot/c.PageSize, slot%c.PageSize
	at, size := c.block(page, in/Block, 0), c.KeySize*c.Element.Bytes()
	dst := c.Data[at+in%Block*size:][:size]
	switch c.Element {
	case F32:
		copy(numbers[float32](dst), row)
	case F16:
		o.NarrowF16(numbers[uint16](dst), row)
	case BF16:
		o.NarrowBF16(numbers[uint16](dst), row)
	case I8:
		numbers[float32](c.Data[at+c.scaleOffset():][:4*Block])[in%Block] = quant.EncodeInt8(numbers[int8](dst), row)
	}
}

// latentBlock is the block of a position of a sequence in a latent cache, and its place there.
func (c *Cache) latentBlock(pages []int32, position int) (block *byte, in int) {
	page, within := pages[position/c.PageSize], position%c.PageSize
	return &c.Data[c.block(int(page), within/Block, 0)], within % Block
}

// readRow makes float32 of a row of a block of a latent cache.
func (c *Cache) readRow(o vec.Ops, row []float32, block *byte, in int) {
	at := offset(block, in*c.KeySize*c.Element.Bytes())
	if c.Element != I8 {
		c.widen(o, row, at)
		return
	}
	scale := *(*float32)(unsafe.Pointer(offset(block, c.scaleOffset()+4*in)))
	for i, x := range unsafe.Slice((*int8)(unsafe.Pointer(at)), c.KeySize) {
		row[i] = float32(x) * scale
	}
}

// ReadLatent makes float32 of the row at a position of a sequence in a latent cache.
func (c *Cache) ReadLatent(o vec.Ops, row []float32, pages []int32, position int) {
	block, in := c.latentBlock(pages, position)
	c.readRow(o, row, block, in)
}

// Write stores one token's keys, [heads][key size], and values, [heads][value size], at a slot: page × PageSize + token.
// half is scratch for a head's numbers.
func (c *Cache) Write(o vec.Ops, slot int, k, v []float32, half []uint16) {
	page, in := slot/c.PageSize, slot%c.PageSize
	for h := range c.Heads {
		at := c.block(page, in/Block, h)
		keys, values := c.Data[at:][:c.valueOffset()], c.Data[at+c.valueOffset():][:Block*c.ValueSize*c.Element.Bytes()]
		row, column := v[h*c.ValueSize:][:c.ValueSize], k[h*c.KeySize:][:c.KeySize]
		switch c.Element {
		case F32:
			copy(numbers[float32](values)[in%Block*c.ValueSize:], row)
			scatter(numbers[float32](keys)[in%Block:], column)
			continue
		case I8:
			scales := numbers[float32](c.Data[at+c.scaleOffset():][:2*4*Block])
			scales[in%Block] = c.writeKey(keys, in%Block, column, numbers[int8](half))
			scales[Block+in%Block] = c.writeValue(values, in%Block, row, numbers[int8](half))
			continue
		}
		narrow := o.NarrowF16
		if c.Element == BF16 {
			narrow = o.NarrowBF16
		}
		narrow(numbers[uint16](values)[in%Block*c.ValueSize:][:c.ValueSize], row)
		narrow(half[:c.KeySize], column)
		scatter(numbers[uint16](keys)[in%Block:], half[:c.KeySize])
	}
}

// scatter writes a column of a block.
func scatter[T number](dst, column []T) {
	for i, x := range column {
		dst[i*Block] = x
	}
}

type number interface{ float32 | uint16 }

// numbers is memory as numbers of a type.
func numbers[T number | int8, From byte | uint16](b []From) []T {
	var x T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)*int(unsafe.Sizeof(b[0]))/int(unsafe.Sizeof(x)))
}

// widen converts n numbers at src to float32; bytes are multiplied as they are.
func (c *Cache) widen(o vec.Ops, dst []float32, src *byte) {
	switch c.Element {
	case F32:
		copy(dst, unsafe.Slice((*float32)(unsafe.Pointer(src)), len(dst)))
	case F16:
		o.WidenF16(dst, unsafe.Slice((*uint16)(unsafe.Pointer(src)), len(dst)))
	case BF16:
		o.WidenBF16(dst, unsafe.Slice((*uint16)(unsafe.Pointer(src)), len(dst)))
	}
}

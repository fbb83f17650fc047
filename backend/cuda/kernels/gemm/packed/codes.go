package packed

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/quant"
)

var order = binary.LittleEndian

// line is a row's part of a unit on the device. Codes are put there a block of 32 columns at a time. They come as GGUF's simplest formats have them,
// eight bytes a word, and whole words are moved: this runs over all weights of a model at its start.
type line struct {
	half   []byte // the half, full of zeros
	g      int    // the row's place in it
	scales []byte // the row's
	format quant.Format
}

const (
	lowHalves = 0x0f0f0f0f0f0f0f0f
	lowTwos   = 0x0303030303030303
)

// lanes gives the words of four lanes, two at a time. Lane t's is made of bytes 2t and 2t + 1 of x and y: of each of the two, the low halves of
// both in one byte and the high halves in the next.
func lanes(x, y uint64) (first, second uint64) {
	low, high := x&lowHalves|y&lowHalves<<4, x>>4&lowHalves|y&^lowHalves
	return spread(uint32(low)) | spread(uint32(high))<<8, spread(uint32(low>>32)) | spread(uint32(high>>32))<<8
}

// spread puts a zero above each byte.
func spread(bytes uint32) uint64 {
	x := uint64(bytes)
	x = (x | x<<16) & 0x0000ffff0000ffff
	return (x | x<<8) & 0x00ff00ff00ff00ff
}

// putU4 puts codes of four bits, or the low four of six: column j is in the low half of byte j, x's being 0 to 7, and column j + 16 in the high half.
func (l *line) putU4(block int, x, y uint64) {
	first, second := lanes(x, y)
	to := l.half[64*l.g+4*block:][:52]
	order.PutUint32(to, uint32(first))
	order.PutUint32(to[16:], uint32(first>>32))
	order.PutUint32(to[32:], uint32(second))
	order.PutUint32(to[48:], uint32(second>>32))
}

// putU2 puts the high two bits of a block and the next one: bits 2i of byte 2t + e are of column 8i + 2t + e.
func (l *line) putU2(block int, one, next uint64) {
	first, second := lanes(one, next)
	to := l.half[512+32*l.g+2*block:][:28]
	order.PutUint32(to, uint32(first))
	order.PutUint32(to[8:], uint32(first>>32))
	order.PutUint32(to[16:], uint32(second))
	order.PutUint32(to[24:], uint32(second>>32))
}

// putU8 puts the codes of a byte each: lane t's word is bytes 2t and 2t + 1 of each of the four.
func (l *line) putU8(block int, a, b, c, d uint64) {
	const low, high = 0x00000000ffffffff, 0xffffffff00000000
	to := l.half[block/2*512+64*l.g+block%2*8:][:56]
	first, second := twos(a&low|c<<32, b&low|d<<32)
	order.PutUint64(to, first)
	order.PutUint64(to[16:], second)
	first, second = twos(a>>32|c&high, b>>32|d&high)
	order.PutUint64(to[32:], first)
	order.PutUint64(to[48:], second)
}

// twos interleaves pairs of bytes of x and y: the first and third pair of each, and the second and fourth.
func twos(x, y uint64) (odd, even uint64) {
	const pairs = 0x0000ffff0000ffff
	return x&pairs | y&pairs<<16, x>>16&pairs | y&^pairs
}

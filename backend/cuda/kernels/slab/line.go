package slab

import "encoding/binary"

var order = binary.LittleEndian

// line is a row's part of a unit: the codes of 128 columns, which readers of files fill in, in blocks of 32, and four scales (eight in
// Q6_K) as they are stored on the device, followed by four floors where there are any. Codes lie as GGUF's simplest formats have them, so
// that whole words are moved: this runs over all weights of a model at its start.
type line struct {
	four   [4][2]uint64 // 16 bytes a block, the codes' low four bits: column j in the low half of byte j, column j + 16 in the high half
	two    [4][4]uint64 // 32 bytes a block, the codes' high two bits: column j in the low bits of byte j
	eight  [4][4]uint64 // 32 bytes a block: column j is byte j
	scales [8]uint16
}

const (
	lowHalves = 0x0f0f0f0f0f0f0f0f
	lowTwos   = 0x0303030303030303
)

// putFour writes row g's codes of four bits to half a unit. In terms of bytes a lane's word of a block is made of bytes 2t and 2t + 1 of two
// words by turns: one with columns 0 to 15 (i of 0 and 1) and one with the others.
func (l *line) putFour(half []byte, g int) {
	for b, w := range &l.four {
		low := w[0]&lowHalves | w[1]&lowHalves<<4
		high := w[0]>>4&lowHalves | w[1]&^lowHalves
		for t := range 4 {
			x, y := uint32(low>>(16*t)), uint32(high>>(16*t))
			order.PutUint32(half[(4*g+t)*16+4*b:], x&0xff|y&0xff<<8|x&0xff00<<8|y&0xff00<<16)
		}
	}
}

func (l *line) putEight(half []byte, g int) {
	for b, w := range &l.eight {
		for t := range 4 {
			var lane uint64
			for i, eight := range w {
				lane |= eight >> (16 * t) & 0xffff << (16 * i)
			}
			order.PutUint64(half[b/2*512+(4*g+t)*16+b%2*8:], lane)
		}
	}
}

func (l *line) putSix(half []byte, g int) {
	l.putFour(half, g)
	for b, w := range &l.two {
		four := w[0] | w[1]<<2 | w[2]<<4 | w[3]<<6 // byte 2t + e: of the columns 8i + 2t + e
		for t := range 4 {
			word := half[512+(4*g+t)*8+b/2*4:]
			for e := range 2 {
				codes := byte(four >> (16*t + 8*e))
				word[2*e] |= codes & 15 << (b % 2 * 4)
				word[2*e+1] |= codes >> 4 << (b % 2 * 4)
			}
		}
	}
}

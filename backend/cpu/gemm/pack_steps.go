package gemm

import (
	"encoding/binary"
)

// packOp says how some of the codes of a block, as the file stores them, become planes. Codes of 32 bytes have a byte for each k
// modulo 32, of which blocks of 32 k use different bits.
type packOp uint8

const (
	opWords   packOp = iota // 16 bytes as they are: four planes
	opInt8                  // 16 signed bytes, plus 128: four planes
	opNibbles               // 32 bytes: four planes of nibbles each for a block of low and a block of high halves
	op2Bit                  // 32 bytes: two planes of two-bit fields each for four blocks
	op1Bit                  // 32 bytes: a plane of bits each for eight blocks
	opMask                  // a 32-bit mask, bit k for weight k: a plane of bits
	opCount
)

// packStep is one part of a format's block and where it goes: plane `plane` of the block's 32-weight blocks sub, sub + step …
type packStep struct {
	kind      packOp
	src       int // bytes into the format's block
	sub, step int
	plane     int
}

// A packFunc interleaves n source parts of 32 rows: rows lie stride bytes apart at src and their parts srcStep; the planes of a part
// go to dst, dstStep bytes apart from part to part and subStep from block to block.
type packFunc func(dst *byte, dstStep, subStep int, src *byte, srcStep, stride, n int)

const (
	mask1 = 0x01010101
	mask2 = 0x03030303
	mask4 = 0x0f0f0f0f
)

// The plain Go packers: from the words of one row's part, put takes what a plane of a block holds of the row.
var packsGeneric = [opCount]packFunc{
	opWords: packRows(4, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k])
		}
	}),
	opInt8: packRows(4, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k]^0x80808080)
		}
	}),
	opNibbles: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k]&mask4|w[4+k]&mask4<<4)
			put(1, k, w[k]>>4&mask4|w[4+k]>>4&mask4<<4)
		}
	}),
	op2Bit: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for i := range 8 {
			block, half, fields := i/2, i%2, uint32(0)
			for f := range 4 {
				fields |= w[4*half+f] >> (2 * block) & mask2 << (2 * f)
			}
			put(block, half, fields)
		}
	}),
	op1Bit: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for block := range 8 {
			bits := uint32(0)
			for j := range 8 {
				bits |= w[j] >> block & mask1 << j
			}
			put(block, 0, bits)
		}
	}),
	opMask: packRows(1, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		bits := uint32(0)
		for i := range 4 {
			// Every fourth bit from i on, gathered in one byte.
			b := w[0] >> i & 0x11111111
			b = (b | b>>3) & 0x03030303
			b = (b | b>>6) & 0x000f000f
			bits |= (b | b>>12) & 0xff << (8 * i)
		}
		put(0, 0, bits)
	}),
}

// packRows is a packFunc that calls do with the words of each row's part.
func packRows(words int, do func(w *[8]uint32, put func(block, plane int, v uint32))) packFunc {
	return func(dst *byte, dstStep, subStep int, src *byte, srcStep, stride, n int) {
		for i := range n {
			for r := range NR {
				var w [8]uint32
				b := bytesAt(offset(src, i*srcStep+r*stride), 4*words)
				for k := range words {
					w[k] = binary.LittleEndian.Uint32(b[4*k:])
				}
				do(&w, func(block, plane int, v uint32) {
					to := offset(dst, i*dstStep+block*subStep+plane*planeBytes+4*r)
					binary.LittleEndian.PutUint32(bytesAt(to, 4), v)
				})
			}
		}
	}
}

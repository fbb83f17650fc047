package gemm

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/quant"
)

// pieceID says how a piece of a block's codes, as the file has it, becomes planes. Codes of 32 bytes have a byte for each
// k modulo 32, of which blocks of 32 k use different bits.
type pieceID uint8

const (
	pieceWords   pieceID = iota // 16 bytes as they are: four planes
	pieceFlipped                // 16 signed bytes, plus 128: four planes
	piecePairs                  // 32 bytes: four planes of nibbles each for a block of low and a block of high halves
	pieceFields                 // 32 bytes: two planes of two-bit fields each for four blocks
	pieceBits                   // 32 bytes: a plane of bits each for eight blocks
	pieceMask                   // a 32-bit mask, bit k for weight k: a plane of bits
	pieceCount
)

// piece is a part of a format's block and where it goes: plane `plane` of the block's 32-weight blocks sub, sub + step …
type piece struct {
	kind      pieceID
	src       int // bytes into the format's block
	sub, step int
	plane     int
}

// pieces of the formats whose blocks quant describes; the places in src are theirs.
var pieces = map[quant.Format][]piece{
	quant.Q8_0:   {{pieceFlipped, 2, 0, 0, 0}, {pieceFlipped, 18, 0, 0, 4}},
	quant.Q4_0:   {{pieceWords, 2, 0, 0, 0}},
	quant.Q4_1:   {{pieceWords, 4, 0, 0, 0}},
	quant.Q5_0:   {{pieceWords, 6, 0, 0, 0}, {pieceMask, 2, 0, 0, 4}},
	quant.Q5_1:   {{pieceWords, 8, 0, 0, 0}, {pieceMask, 4, 0, 0, 4}},
	quant.Q2_K:   {{pieceFields, 16, 0, 1, 0}, {pieceFields, 48, 4, 1, 0}},
	quant.Q3_K:   {{pieceFields, 32, 0, 1, 0}, {pieceFields, 64, 4, 1, 0}, {pieceBits, 0, 0, 1, 2}},
	quant.Q4_K:   {{piecePairs, 16, 0, 1, 0}, {piecePairs, 48, 2, 1, 0}, {piecePairs, 80, 4, 1, 0}, {piecePairs, 112, 6, 1, 0}},
	quant.Q5_K:   {{piecePairs, 48, 0, 1, 0}, {piecePairs, 80, 2, 1, 0}, {piecePairs, 112, 4, 1, 0}, {piecePairs, 144, 6, 1, 0}, {pieceBits, 16, 0, 1, 4}},
	quant.Q6_K:   {{piecePairs, 0, 0, 2, 0}, {piecePairs, 32, 1, 2, 0}, {piecePairs, 64, 4, 2, 0}, {piecePairs, 96, 5, 2, 0}, {pieceFields, 128, 0, 1, 4}, {pieceFields, 160, 4, 1, 4}},
	quant.IQ4_NL: {{pieceWords, 2, 0, 0, 0}},
	quant.MXFP4:  {{pieceWords, 1, 0, 0, 0}},
}

// A packFunc interleaves n pieces of 32 rows: rows lie stride bytes apart at src and their pieces srcStep; the planes of
// a piece go to dst, dstStep bytes apart from piece to piece and subStep from block to block.
type packFunc func(dst *byte, dstStep, subStep int, src *byte, srcStep, stride, n int)

const (
	each1 = 0x01010101
	each2 = 0x03030303
	each4 = 0x0f0f0f0f
)

// The plain Go packers: of the words of one row's piece, put takes what a plane of a block holds of the row.
var packsGeneric = [pieceCount]packFunc{
	pieceWords: packRows(4, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k])
		}
	}),
	pieceFlipped: packRows(4, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k]^0x80808080)
		}
	}),
	piecePairs: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for k := range 4 {
			put(0, k, w[k]&each4|w[4+k]&each4<<4)
			put(1, k, w[k]>>4&each4|w[4+k]>>4&each4<<4)
		}
	}),
	pieceFields: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for i := range 8 {
			block, half, fields := i/2, i%2, uint32(0)
			for f := range 4 {
				fields |= w[4*half+f] >> (2 * block) & each2 << (2 * f)
			}
			put(block, half, fields)
		}
	}),
	pieceBits: packRows(8, func(w *[8]uint32, put func(block, plane int, v uint32)) {
		for block := range 8 {
			bits := uint32(0)
			for j := range 8 {
				bits |= w[j] >> block & each1 << j
			}
			put(block, 0, bits)
		}
	}),
	pieceMask: packRows(1, func(w *[8]uint32, put func(block, plane int, v uint32)) {
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

// packRows makes a packer of what it does with the words of a row's piece.
func packRows(words int, do func(w *[8]uint32, put func(block, plane int, v uint32))) packFunc {
	return func(dst *byte, dstStep, subStep int, src *byte, srcStep, stride, n int) {
		for i := range n {
			for r := range Granule {
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

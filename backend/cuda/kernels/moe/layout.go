package moe

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/slab"
	"github.com/ridge-llm/ridge/quant"
)

// An expert's matrix lies on the device in slabs, as kernels/slab has them. Formats that slab does not know are kept in BF16, in slabs of
// the same order whose halves of units are
//
//	[4 blocks of 32 columns][32 lanes][4 columns of two]bf16
//
// where lane 4g + t has row g, columns 8i + 2t and 8i + 2t + 1 at place i.
const (
	halfBytes = 2048 // in BF16
	tileRows  = 16
	slabTiles = 8
	slabRows  = slabTiles * tileRows
	columns   = 128
)

func tiles(rows int) int { return (rows + tileRows - 1) / tileRows }
func units(cols int) int { return (cols + 2*columns - 1) / (2 * columns) * 2 }

// forms are the formats that experts are kept in, with the folder of their kernels.
var forms = map[quant.Format]string{
	quant.BF16: "experts_bf16", quant.Q4_0: "experts_q4_0", quant.Q4_1: "experts_q4_affine", quant.Q4_K: "experts_q4_affine", quant.MXFP4: "experts_mxfp4",
	quant.Q8_0: "experts_q8_0", quant.Q6_K: "experts_q6_k",
}

// Form is the format that experts in a file's format are kept in: their own, or BF16.
func Form(f quant.Format) quant.Format {
	if forms[f] != "" {
		return f
	}
	return quant.BF16
}

// Slabs is how many slabs a matrix has, and the bytes of each.
func Slabs(t quant.Tensor) (n, bytes int) {
	t.Format = Form(t.Format)
	if t.Format == quant.BF16 {
		return (t.Rows + slabRows - 1) / slabRows, units(t.Cols) * slabTiles * 2 * halfBytes
	}
	return slab.Slabs(t)
}

// Bytes is what a matrix takes in the form of a format.
func Bytes(f quant.Format, rows, cols int) int64 {
	n, bytes := Slabs(quant.Tensor{Format: f, Rows: rows, Cols: cols})
	return int64(n) * int64(bytes)
}

// Pack writes slabs from to to-1 of a matrix, whatever it is in, in a form: its own or BF16. dst is overwritten.
func Pack(dst []byte, t quant.Tensor, form quant.Format, from, to int) {
	if form == quant.BF16 {
		packFloats(dst, t, from, to)
	} else {
		slab.Pack(dst, t, from, to)
	}
}

// packFloats is Pack in BF16.
func packFloats(dst []byte, t quant.Tensor, from, to int) {
	cols := units(t.Cols) * columns
	bytes := cols * slabRows * 2
	clear(dst[:(to-from)*bytes])
	numbers, row := make([]float32, t.Cols), make([]byte, 2*cols)
	for r := from * slabRows; r < min(to*slabRows, t.Rows); r++ {
		if t.Format == quant.BF16 {
			copy(row, t.Row(r))
		} else {
			quant.Decode(t.Format, numbers, t.Row(r))
			for i, x := range numbers {
				binary.LittleEndian.PutUint16(row[2*i:], quant.F32ToBF16(x))
			}
		}
		half, g := dst[(r/slabRows-from)*bytes+r%slabRows/8*halfBytes:], r%8
		for unit := range cols / columns {
			for b := range 4 {
				block, lanes := row[unit*256+b*64:][:64], half[unit*slabTiles*2*halfBytes+b*512+g*64:][:64]
				for i := range 4 {
					for t := range 4 {
						copy(lanes[t*16+i*4:][:4], block[i*16+t*4:])
					}
				}
			}
		}
	}
}

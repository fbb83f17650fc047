package gemm

import "github.com/ridge-llm/ridge/quant"

// formID names how the codes of a block lie in packed memory; tools/asm/gemm/forms.go describes each.
type formID uint8

const (
	formU8 formID = iota // a byte for each weight
	formS8               // likewise, with a scale for 16 weights
	formU4               // four bits
	formU5               // four bits and one
	formU6               // four bits and two; scales for 16
	formU3               // two bits and one; scales for 16
	formU2               // two bits; scales for 16
	formN4               // four-bit indices into the levels of IQ4_NL
	formM4               // four-bit floats of MXFP4
	formI8               // a signed byte, as arm64 unpacks codes; never in packed memory
	formH8               // likewise, with a scale for 16
	formCount
)

// unpackTiles is from how many tiles of activations on codes are unpacked to bytes once, rather than in every tile's kernel:
// a form of two fields costs more each time.
func (f formID) unpackTiles() int {
	if f == formU5 || f == formU6 || f == formU3 {
		return 3
	}
	return 4
}

// sub16 reports whether scales stand for 16 weights instead of 32.
func (f formID) sub16() bool {
	return f == formS8 || f == formU6 || f == formU3 || f == formU2 || f == formH8
}

// planeBytes is a plane of 32 rows: a byte for each row and each k modulo 4.
const planeBytes = 4 * Granule

var formPlanes = [formCount]int{8, 8, 4, 5, 6, 3, 2, 4, 4, 8, 8}

// blockBytes is what the codes of 32 rows × 32 k take.
func (f formID) blockBytes() int { return formPlanes[f] * planeBytes }

// scaleID names how scales lie in packed memory, and so which kernel expands them.
type scaleID uint8

const (
	scaleHalf    scaleID = iota // [32]f16 for each block
	scaleHalfMin                // [32]f16 scales, [32]f16 minima
	scaleE8                     // [32]u8 exponents
	scaleK4                     // for each super-block: [32]f16 d, [32]f16 dmin, [12][32]u8
	scaleK6                     // [32]f16 d, [16][32]i8
	scaleK3                     // [32]f16 d, [12][32]u8
	scaleK2                     // [32]f16 d, [32]f16 dmin, [16][32]u8
	scaleCount
)

// packing is how one number format is packed. A code c of the form, as the unsigned byte that kernels see, stands for
// scale·mul·(c−128), plus minimum + scale·off where the format has minima: that is the format's own definition, with
// its codes moved to the top of the byte. The scales of a row's block are half floats and then lines of bytes; in the
// file each are together.
type packing struct {
	form     formID
	scale    scaleID
	mul, off float32
	halves   int // half floats: a scale, and a scale of minima or a minimum
	halvesAt int // bytes into the format's block
	lines    int // bytes of other scales
	linesAt  int
	bytes    int // of all scales of 32 rows, for one block of the format
	mins     bool
}

var packings = map[quant.Format]packing{
	quant.Q8_0:   {formU8, scaleHalf, 1, 0, 1, 0, 0, 0, 64, false},
	quant.Q4_0:   {formU4, scaleHalf, 1. / 16, 0, 1, 0, 0, 0, 64, false},
	quant.Q4_1:   {formU4, scaleHalfMin, 1. / 16, 8, 2, 0, 0, 0, 128, true},
	quant.Q5_0:   {formU5, scaleHalf, 1. / 8, 0, 1, 0, 0, 0, 64, false},
	quant.Q5_1:   {formU5, scaleHalfMin, 1. / 8, 16, 2, 0, 0, 0, 128, true},
	quant.Q2_K:   {formU2, scaleK2, 1. / 64, 2, 2, 80, 16, 0, 128 + 16*32, true},
	quant.Q3_K:   {formU3, scaleK3, 1. / 32, 0, 1, 108, 12, 96, 64 + 12*32, false},
	quant.Q4_K:   {formU4, scaleK4, 1. / 16, 8, 2, 0, 12, 4, 128 + 12*32, true},
	quant.Q5_K:   {formU5, scaleK4, 1. / 8, 16, 2, 0, 12, 4, 128 + 12*32, true},
	quant.Q6_K:   {formU6, scaleK6, 1. / 4, 0, 1, 208, 16, 192, 64 + 16*32, false},
	quant.IQ4_NL: {formN4, scaleHalf, 1, 0, 1, 0, 0, 0, 64, false},
	quant.MXFP4:  {formM4, scaleE8, 1. / 2, 0, 0, 0, 1, 0, 32, false},
}

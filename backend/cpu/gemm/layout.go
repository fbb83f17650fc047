package gemm

import "github.com/ridge-llm/ridge/quant"

// codeLayout is how the codes of a block are stored in packed memory; tools/asm/gemm/layouts.go describes each.
type codeLayout uint8

const (
	layoutU8 codeLayout = iota // a byte for each weight
	layoutS8                   // likewise, with a scale for 16 weights
	layoutU4                   // four bits
	layoutU5                   // four bits and one
	layoutU6                   // four bits and two; scales for 16
	layoutU3                   // two bits and one; scales for 16
	layoutU2                   // two bits; scales for 16
	layoutN4                   // four-bit indices into the codebooks of IQ4_NL
	layoutM4                   // four-bit floats of MXFP4
	layoutI8                   // a signed byte, as arm64 unpacks codes; never in packed memory
	layoutH8                   // likewise, with a scale for 16
	layoutCount
)

// unpackTiles is the number of tiles of activations from which on codes are unpacked to bytes once, rather than in every tile's kernel:
// a layout of two bit fields costs more each time.
func (f codeLayout) unpackTiles() int {
	if f == layoutU5 || f == layoutU6 || f == layoutU3 {
		return 3
	}
	return 4
}

// sub16 reports whether scales stand for 16 weights instead of 32.
func (f codeLayout) sub16() bool {
	return f == layoutS8 || f == layoutU6 || f == layoutU3 || f == layoutU2 || f == layoutH8
}

// planeBytes is the size of a plane of NR rows: a byte for each row and each k modulo 4.
const planeBytes = 4 * NR

var layoutPlanes = [layoutCount]int{8, 8, 4, 5, 6, 3, 2, 4, 4, 8, 8}

// blockBytes is the size of the codes of NR rows × 32 k.
func (f codeLayout) blockBytes() int { return layoutPlanes[f] * planeBytes }

// scaleLayout is how scales are stored in packed memory, and so which kernel expands them.
type scaleLayout uint8

const (
	scaleF16    scaleLayout = iota // [32]f16 for each block
	scaleF16Min                    // [32]f16 scales, [32]f16 minima
	scaleE8                        // [32]u8 exponents
	scaleK4                        // for each super-block: [32]f16 d, [32]f16 dmin, [12][32]u8
	scaleK6                        // [32]f16 d, [16][32]i8
	scaleK3                        // [32]f16 d, [12][32]u8
	scaleK2                        // [32]f16 d, [32]f16 dmin, [16][32]u8
	scaleCount
)

// packing is how one number format is packed. A code c of the layout, as the unsigned byte that kernels see, stands for
// scale·mul·(c−128), plus minimum + scale·off where the format has minima: that is the format's own definition, with
// its codes moved to the top of the byte. The scales of a panel's block are rows of f16 and then rows of bytes, each [NR].
type packing struct {
	layout   codeLayout
	scale    scaleLayout
	mul, off float32
	f16s     int // f16 scales in a block of the format: a scale, and a scale of minima or a minimum
	f16sAt   int // their offset in the format's block, in bytes
	bytes    int // bytes of sub-scales (or of the exponent) in a block of the format
	bytesAt  int
	size     int // bytes of all scales of NR rows, for one block of the format
	mins     bool
}

var packings = map[quant.Format]packing{
	quant.Q8_0:   {layoutU8, scaleF16, 1, 0, 1, 0, 0, 0, 64, false},
	quant.Q4_0:   {layoutU4, scaleF16, 1. / 16, 0, 1, 0, 0, 0, 64, false},
	quant.Q4_1:   {layoutU4, scaleF16Min, 1. / 16, 8, 2, 0, 0, 0, 128, true},
	quant.Q5_0:   {layoutU5, scaleF16, 1. / 8, 0, 1, 0, 0, 0, 64, false},
	quant.Q5_1:   {layoutU5, scaleF16Min, 1. / 8, 16, 2, 0, 0, 0, 128, true},
	quant.Q2_K:   {layoutU2, scaleK2, 1. / 64, 2, 2, 80, 16, 0, 128 + 16*32, true},
	quant.Q3_K:   {layoutU3, scaleK3, 1. / 32, 0, 1, 108, 12, 96, 64 + 12*32, false},
	quant.Q4_K:   {layoutU4, scaleK4, 1. / 16, 8, 2, 0, 12, 4, 128 + 12*32, true},
	quant.Q5_K:   {layoutU5, scaleK4, 1. / 8, 16, 2, 0, 12, 4, 128 + 12*32, true},
	quant.Q6_K:   {layoutU6, scaleK6, 1. / 4, 0, 1, 208, 16, 192, 64 + 16*32, false},
	quant.IQ4_NL: {layoutN4, scaleF16, 1, 0, 1, 0, 0, 0, 64, false},
	quant.MXFP4:  {layoutM4, scaleE8, 1. / 2, 0, 0, 0, 1, 0, 32, false},
}

package gemm

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
	scaleF16     scaleLayout = iota // [32]f16 for each block
	scaleF16Min                     // [32]f16 scales, [32]f16 minima
	scaleF16Zero                    // [32]f16 scales, [32]f16 zero points
	scaleE8                         // [32]u8 exponents
	scaleK4                         // for each super-block: [32]f16 d, [32]f16 dmin, [12][32]u8
	scaleK6                         // [32]f16 d, [16][32]i8
	scaleK3                         // [32]f16 d, [12][32]u8
	scaleK2                         // [32]f16 d, [32]f16 dmin, [16][32]u8
	scaleXS                         // [32]f16 d, [6][32]u8
	scaleF32                        // [32]f32 for each 32 numbers or, with codeLayout.sub16, 16; used where they lie
	scaleCount
)

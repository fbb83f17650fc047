package quant

import (
	"fmt"
	"math"
	"math/bits"
)

// BF16_2_4 and F16_2_4: 64 numbers in 72 bytes, of which two of each four are stored (2:4 structured sparsity, Mishra et al.,
// arXiv:2104.08378) and the others are zero.
//
//	mask   [8]u8       bit j of byte i: number 8i+j is stored; two of each four are
//	values [32]bf16    those numbers, or f16, in order
//
// Masks and values are those of compressed-tensors' sparse-24-bitmask. GGUF has no such type: these are Ridge's own tensor types 2400 and 2401,
// which other programs refuse by their numbers.
const (
	BF16_2_4 Format = 36
	F16_2_4  Format = 37
)

const (
	sparseBlock = 64
	sparseBytes = 72
	sparseMask  = 8 // bytes before the values
)

// Sparsity is structured sparsity: of each Of numbers of a row, one behind the other, Kept are stored, as plain Values, and the others are zero. The
// zero value: all numbers are stored.
type Sparsity struct {
	Kept, Of int
	Values   Format
}

// String is "2:4".
func (s Sparsity) String() string { return fmt.Sprintf("%d:%d", s.Kept, s.Of) }

var _ = register(BF16_2_4, Descriptor{
	Name: "BF16_2_4", Block: sparseBlock, BlockBytes: sparseBytes, FloatCodes: true, Sparsity: Sparsity{2, 4, BF16}, Fallback: BF16,
	GGUF:     &GGUFType{Tensor: 2400, File: 2400},
	bound:    bound{1, 0x1p-134, 0x1.ffp127}, // the third largest of four is lost
	decode:   func(dst []float32, src []byte) { decodeSparse(dst, src, BF16ToF32) },
	encode:   func(dst []byte, src []float32) { encodeSparse(dst, src, nil, F32ToBF16) },
	weighted: func(dst []byte, src, importance []float32) { encodeSparse(dst, src, importance, F32ToBF16) },
})

var _ = register(F16_2_4, Descriptor{
	Name: "F16_2_4", Block: sparseBlock, BlockBytes: sparseBytes, FloatCodes: true, Sparsity: Sparsity{2, 4, F16}, Fallback: F16,
	GGUF:     &GGUFType{Tensor: 2401, File: 2401},
	bound:    bound{1, 0x1p-25, 65520},
	decode:   func(dst []float32, src []byte) { decodeSparse(dst, src, F16ToF32) },
	encode:   func(dst []byte, src []float32) { encodeSparse(dst, src, nil, F32ToF16) },
	weighted: func(dst []byte, src, importance []float32) { encodeSparse(dst, src, importance, F32ToF16) },
})

func decodeSparse(dst []float32, src []byte, widen func(uint16) float32) {
	for len(src) >= sparseBytes {
		clear(dst[:sparseBlock])
		mask, values := order.Uint64(src), src[sparseMask:sparseBytes]
		for ; mask != 0 && len(values) > 0; mask &= mask - 1 {
			dst[bits.TrailingZeros64(mask)] = widen(order.Uint16(values))
			values = values[2:]
		}
		src, dst = src[sparseBytes:], dst[sparseBlock:]
	}
}

// encodeSparse stores two numbers of each four: those with the largest magnitudes, or with importances those whose loss would cost the most, as in
// Wanda (Sun et al., arXiv:2306.11695). Of equal ones it is the first. Numbers that are 2:4 sparse already stay as they are.
func encodeSparse(dst []byte, src, importance []float32, narrow func(float32) uint16) {
	for len(src) >= sparseBlock {
		var mask uint64
		values := dst[sparseMask:sparseBytes]
		for g := 0; g < sparseBlock; g += 4 {
			four := (*[4]float32)(src[g:])
			kept := keepTwo(four, part(importance, g, 4))
			mask |= uint64(kept) << g
			for j, v := range four {
				if kept>>j&1 != 0 {
					order.PutUint16(values, narrow(v))
					values = values[2:]
				}
			}
		}
		order.PutUint64(dst, mask)
		src, dst, importance = src[sparseBlock:], dst[sparseBytes:], rest(importance, sparseBlock)
	}
}

// keepTwo is the mask of the two largest of four by magnitude, or with importances by magnitude times the importance's square root, and of equal
// ones by magnitude: an importance may be zero, and a zero is still the last to be kept.
func keepTwo(x *[4]float32, importance []float32) (mask uint8) {
	var loss, magnitude [4]float64
	for j, v := range x {
		magnitude[j] = math.Abs(float64(v))
		loss[j] = magnitude[j]
		if importance != nil {
			loss[j] *= math.Sqrt(float64(importance[j]))
		}
	}
	for range 2 {
		best := bits.TrailingZeros8(^mask)
		for j := best + 1; j < 4; j++ {
			if mask>>j&1 == 0 && (loss[j] > loss[best] || loss[j] == loss[best] && magnitude[j] > magnitude[best]) {
				best = j
			}
		}
		mask |= 1 << best
	}
	return mask
}

// CheckSparse says which byte of the masks of a 2:4 matrix, [rows][⌈columns/8⌉], does not keep two of each four; -1: none.
func CheckSparse(masks []byte) (at int) {
	for i, m := range masks {
		if bits.OnesCount8(m&15) != 2 || bits.OnesCount8(m>>4) != 2 {
			return i
		}
	}
	return -1
}

// CheckSparseBlocks says which number of blocks of BF16_2_4 or F16_2_4, counted from 0, begins four numbers of which not two are stored; -1: none.
func CheckSparseBlocks(blocks []byte) (number int) {
	const pairs, fours, twoEach = 0x5555555555555555, 0x3333333333333333, 0x2222222222222222
	for at := 0; at+sparseBytes <= len(blocks); at += sparseBytes {
		stored := order.Uint64(blocks[at:])
		stored -= stored >> 1 & pairs
		stored = stored&fours + stored>>2&fours // how many of each four
		if wrong := stored ^ twoEach; wrong != 0 {
			return at/sparseBytes*sparseBlock + bits.TrailingZeros64(wrong)/4*4
		}
	}
	return -1
}

package quant

import "math"

// NF4 and FP4: 64 numbers in 36 bytes, four-bit indices into a codebook under the largest magnitude of the block, as bitsandbytes stores them
// (QLoRA, arXiv:2305.14314, appendix E; bitsandbytes' quantiles and its FP4 table).
//
//	d   f32         largest magnitude; x = d·codebook[q]
//	qs  [2][16]u8   of 32 numbers each, as Q4_0's: number j in the low half of byte j, number j+16 in the high half
const (
	NF4 Format = 23
	FP4 Format = 24
)

const (
	bnb4Block = 64
	bnb4Bytes = 36
)

var _ = register(NF4, Descriptor{
	Name: "NF4", Block: bnb4Block, BlockBytes: bnb4Bytes, FloatCodes: true, Codebook: &nf4Codebook, Fallback: Q8_0,
	bound:  bound{0.153, 0x1p-140, math.Inf(1)}, // half of the widest gap, between the first two
	decode: func(dst []float32, src []byte) { decodeBNB4(dst, src, &nf4Codebook) },
	encode: func(dst []byte, src []float32) { encodeBNB4(dst, src, &nf4Codebook) },
})

var _ = register(FP4, Descriptor{
	Name: "FP4", Block: bnb4Block, BlockBytes: bnb4Bytes, FloatCodes: true, Codebook: &fp4Codebook, Fallback: Q8_0,
	bound:  bound{0.167, 0x1p-140, math.Inf(1)},
	decode: func(dst []float32, src []byte) { decodeBNB4(dst, src, &fp4Codebook) },
	encode: func(dst []byte, src []float32) { encodeBNB4(dst, src, &fp4Codebook) },
})

// nf4Codebook are quantiles of a normal distribution between -1 and 1, with zero among them.
var nf4Codebook = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

// fp4Codebook are a sign and three bits of a float, as parts of the largest.
var fp4Codebook = [16]float32{
	0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25,
	0, -0.005208333333, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25,
}

func decodeBNB4(dst []float32, src []byte, codebook *[16]float32) {
	for len(src) >= bnb4Bytes {
		d := math.Float32frombits(order.Uint32(src))
		for i := range 2 {
			decodeCodebook((*[32]float32)(dst[32*i:]), (*[16]byte)(src[4+16*i:]), d, codebook)
		}
		src, dst = src[bnb4Bytes:], dst[bnb4Block:]
	}
}

func encodeBNB4(dst []byte, src []float32, codebook *[16]float32) {
	for len(src) >= bnb4Block {
		var peak float32
		for _, v := range src[:bnb4Block] {
			peak = max(peak, v, -v)
		}
		order.PutUint32(dst, math.Float32bits(peak))
		code := func(i int) byte {
			best, least := 0, math.Inf(1)
			for c, v := range codebook {
				if e := math.Abs(float64(src[i]) - float64(peak)*float64(v)); e < least {
					best, least = c, e
				}
			}
			return byte(best)
		}
		for i := range 2 {
			for j := range 16 {
				dst[4+16*i+j] = code(32*i+j) | code(32*i+j+16)<<4
			}
		}
		src, dst = src[bnb4Block:], dst[bnb4Bytes:]
	}
}

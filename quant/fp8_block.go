package quant

import "math"

// FP8_BLOCK: 128 numbers in 132 bytes, e4m3 with a scale, which is what DeepSeek's and Qwen's FP8 checkpoints hold: of their blocks of 128 × 128
// each row has the scale.
//
//	d     f32       scale; x = d·code
//	codes [128]u8   e4m3 of "FP8 Formats for Deep Learning", arXiv:2209.05433
const FP8_BLOCK Format = 22

const (
	fp8Block      = 128
	fp8BlockBytes = 132
)

var _ = register(FP8_BLOCK, Descriptor{
	Name: "FP8_BLOCK", Block: fp8Block, BlockBytes: fp8BlockBytes, FloatCodes: true, Fallback: BF16,
	bound:  bound{0.0358, minRowPeak, 0x1.ffp127}, // half a step of 32 at 448
	decode: decodeFP8Block, encode: encodeFP8Block,
})

func decodeFP8Block(dst []float32, src []byte) {
	for len(src) >= fp8BlockBytes {
		d, out := math.Float32frombits(order.Uint32(src)), (*[fp8Block]float32)(dst)
		for i, c := range src[4:fp8BlockBytes] {
			out[i] = e4m3Values[c] * d
		}
		src, dst = src[fp8BlockBytes:], dst[fp8Block:]
	}
}

func encodeFP8Block(dst []byte, src []float32) {
	for len(src) >= fp8Block {
		order.PutUint32(dst, math.Float32bits(EncodeFP8(dst[4:fp8BlockBytes], src[:fp8Block])))
		src, dst = src[fp8Block:], dst[fp8BlockBytes:]
	}
}

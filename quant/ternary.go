package quant

// TQ1_0 and TQ2_0: 256 numbers −1, 0 and 1 under one scale, which ends the block. (Source: ggml-common.h.)
//
//	TQ1_0, 54 bytes: qs [48]u8, of five numbers each, as a fraction of 256 of three to the fifth; the first 32 bytes are of 160 numbers, byte j
//	                 of numbers j, j+32 …, the other 16 likewise of the next 80, by 16; qh [4]u8, of four numbers each, by 4; d f16
//	TQ2_0, 66 bytes: qs [64]u8, of two bits: of each 32 bytes, byte j of numbers j, j+32, j+64, j+96; d f16
const (
	TQ1_0 Format = 34
	TQ2_0 Format = 35
)

var _ = registerGrouped(TQ1_0, Descriptor{Name: "TQ1_0", BlockBytes: 54, CodeGroup: 32, GGUF: &GGUFType{Tensor: 34, File: 36}, Fallback: Q4_0}, codesTQ1_0, nil)

var _ = registerGrouped(TQ2_0, Descriptor{Name: "TQ2_0", BlockBytes: 66, CodeGroup: 32, GGUF: &GGUFType{Tensor: 35, File: 37}, Fallback: Q4_0}, codesTQ2_0, nil)

// oneScale sets all scales.
func oneScale(scales []float32, d float32) {
	for i := range scales {
		scales[i] = d
	}
}

func codesTQ1_0(codes []int8, scales []float32, b []byte) {
	oneScale(scales, f16at(b[52:]))
	for _, part := range []struct{ from, bytes, digits int }{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}} {
		for j, q := range b[part.from : part.from+part.bytes] {
			for n := range part.digits {
				codes[n*part.bytes+j] = int8(uint16(q)*3>>8) - 1
				q *= 3
			}
		}
		codes = codes[part.bytes*part.digits:]
	}
}

func codesTQ2_0(codes []int8, scales []float32, b []byte) {
	oneScale(scales, f16at(b[64:]))
	for i, q := range b[:64] {
		for n := range 4 {
			codes[i/32*128+n*32+i%32] = int8(q>>(2*n)&3) - 1
		}
	}
}

package quant

import "math"

// NVFP4: 64 numbers in 36 bytes, four-bit floats E2M1 with a scale for each 16, e4m3 without sign.
//
//	d   [4]u8    scales; 0x7f is 0 as well, as ggml has it
//	qs  [4][8]u8 of 16 numbers each: number j in the low half of byte j, number j+8 in the high half
//
// A GGUF file may have a scale of the whole matrix in a tensor by itself; see recipe.ScaledBlocks.
const NVFP4 Format = 26

var _ = registerGrouped(NVFP4, Descriptor{Name: "NVFP4", Block: 64, BlockBytes: 36, GGUF: &GGUFType{Tensor: 40, File: 39}, Fallback: Q8_0, Scaled: NVFP4_ROW, scale: scaleNVFP4}, codesNVFP4, nil)

// codesNVFP4 gives E2M1 numbers times two, so that they are whole, and halves the scale to match.
func codesNVFP4(codes []int8, scales []float32, b []byte) {
	for i := range 4 {
		scales[i] = ue4m3(b[i]) / 2
		for j, q := range b[4+8*i : 12+8*i] {
			codes[16*i+j] = int8(mxfp4Values[q&15])
			codes[16*i+j+8] = int8(mxfp4Values[q>>4])
		}
	}
}

// ue4m3 is a number without sign. Its highest exponent is an ordinary one, but 0x7f is 0; the bit of a sign is not looked at otherwise.
func ue4m3(b byte) float32 {
	switch b {
	case 0x7f:
		return 0
	case 0xff:
		return 480
	}
	return e4m3Value(b & 0x7f)
}

// scaleNVFP4 moves each 16 numbers' scale in front of their codes, which both formats have in the same bytes.
func scaleNVFP4(dst, row []byte, scale float32) {
	for ; len(row) > 0; row = row[36:] {
		for i, s := range row[:4] {
			if s == 0x7f { // zero, as ggml has it
				s = 0
			}
			dst[0] = s & 0x7f
			copy(dst[1:nvfp4RowBytes], row[4+8*i:])
			dst = dst[nvfp4RowBytes:]
		}
	}
	order.PutUint32(dst, math.Float32bits(scale))
}

package quant

// UINT4: 32 numbers in 20 bytes, codes of four bits with a scale and a zero point, as GPTQ, AWQ and compressed-tensors quantise asymmetrically.
//
//	d   f16      scale
//	z   f16      zero point, a code: of these checkpoints 0 to 16
//	qs  [16]u8   as Q4_0's: number j in the low half of byte j, number j+16 in the high half; x = d·(q−z)
//
// A floor d·z, as Q4_1 has it, would need more bits than f16 has. Checkpoints with larger groups repeat both.
const UINT4 Format = 20

const uint4Bytes = 20

var _ = register(UINT4, Descriptor{
	Name: "UINT4", Block: 32, BlockBytes: uint4Bytes, Fallback: Q8_0,
	bound:  bound{0.07, 0x1p-22, 7 * f16Max}, // the range and a half step at either end by 15 steps
	decode: decodeUINT4, encode: encodeUINT4,
	put: putUINT4,
})

func decodeUINT4(dst []float32, src []byte) {
	for len(src) >= uint4Bytes {
		b, out := (*[uint4Bytes]byte)(src), (*[32]float32)(dst)
		d, z := f16at(b[:]), f16at(b[2:])
		for j, q := range b[4:] {
			out[j] = (float32(q&15) - z) * d
			out[j+16] = (float32(q>>4) - z) * d
		}
		src, dst = src[uint4Bytes:], dst[32:]
	}
}

// zeroPoint stores scale and zero point of a block whose codes run from 0 to top, and returns both: the range, which zero is made part of,
// becomes all codes, and zero one of them.
func zeroPoint(b []byte, x *[32]float32, top float32) (z, inv float32) {
	lo, hi := float32(0), float32(0)
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	inv = putScale(b, (hi/top)-(lo/top))
	z = float32(nearest(min(-lo*inv, top), 0, top))
	order.PutUint16(b[2:], F32ToF16(z))
	return z, inv
}

func encodeUINT4(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[uint4Bytes]byte)(dst)
		z, inv := zeroPoint(b[:], x, 15)
		for j := range 16 {
			b[4+j] = byte(nearest(x[j]*inv+z, 0, 15) | nearest(x[j+16]*inv+z, 0, 15)<<4)
		}
		src, dst = src[32:], dst[uint4Bytes:]
	}
}

func putUINT4(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	order.PutUint16(b[2:], F32ToF16(float32(zero)))
	putNibbles(b[4:], codes, 0)
}

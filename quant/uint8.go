package quant

// UINT8: 32 numbers in 36 bytes, codes of eight bits with a scale and a zero point, as GPTQ and compressed-tensors quantise asymmetrically.
//
//	d   f16      scale
//	z   f16      zero point, a code: of these checkpoints 0 to 256
//	qs  [32]u8   x = d·(q−z)
const UINT8 Format = 21

const uint8Bytes = 36

var _ = register(UINT8, Descriptor{
	Name: "UINT8", Block: 32, BlockBytes: uint8Bytes, FloatCodes: true, Fallback: F16,
	bound:  bound{0.0041, 0x1p-22, 127 * f16Max},
	decode: decodeUINT8, encode: encodeUINT8,
	put: putUINT8,
})

func decodeUINT8(dst []float32, src []byte) {
	for len(src) >= uint8Bytes {
		b, out := (*[uint8Bytes]byte)(src), (*[32]float32)(dst)
		d, z := f16at(b[:]), f16at(b[2:])
		for j, q := range b[4:] {
			out[j] = (float32(q) - z) * d
		}
		src, dst = src[uint8Bytes:], dst[32:]
	}
}

func encodeUINT8(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[uint8Bytes]byte)(dst)
		z, inv := zeroPoint(b[:], x, 255)
		for j, v := range x {
			b[4+j] = byte(nearest(v*inv+z, 0, 255))
		}
		src, dst = src[32:], dst[uint8Bytes:]
	}
}

func putUINT8(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	order.PutUint16(b[2:], F32ToF16(float32(zero)))
	copy(b[4:], codes)
}

package quant

// Q8_0: 32 numbers in 34 bytes.
//
//	d   f16      scale
//	qs  [32]i8   x = d·q
const Q8_0 Format = 4

const q8_0Bytes = 34

var _ = register(Q8_0, Descriptor{
	Name: "Q8_0", Block: 32, BlockBytes: q8_0Bytes,
	GGUF:   &GGUFType{Tensor: 8, File: 7},
	bound:  bound{0.00394, 0x1p-25, 127 * f16Max}, // half a step of 1/127
	decode: decodeQ8_0, encode: encodeQ8_0,
	put: putQ8_0,
})

func decodeQ8_0(dst []float32, src []byte) {
	for len(src) >= q8_0Bytes {
		b, out := (*[q8_0Bytes]byte)(src), (*[32]float32)(dst)
		d := f16at(b[:])
		for j, q := range b[2:] {
			out[j] = float32(int8(q)) * d
		}
		src, dst = src[q8_0Bytes:], dst[32:]
	}
}

func encodeQ8_0(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[q8_0Bytes]byte)(dst)
		largest := peak(x)
		inv := putScale(b[:], max(largest, -largest)/127)
		for j, v := range x {
			b[2+j] = byte(int8(nearest(v*inv, -127, 127)))
		}
		src, dst = src[32:], dst[q8_0Bytes:]
	}
}

func putQ8_0(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	for i, q := range codes {
		b[2+i] = q - byte(zero)
	}
}

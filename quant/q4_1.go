package quant

// Q4_1: 32 numbers in 20 bytes.
//
//	d   f16      scale
//	m   f16      smallest number
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; x = d·q + m
const Q4_1 Format = 6

const q4_1Bytes = 20

var _ = register(Q4_1, Descriptor{
	Name: "Q4_1", Block: 32, BlockBytes: q4_1Bytes,
	GGUF:   &GGUFType{Tensor: 3, File: 3},
	bound:  bound{0.0668, 0x1p-24, f16Max}, // half a step of 2/15
	decode: decodeQ4_1, encode: encodeQ4_1,
	put: putQ4_1,
})

func decodeQ4_1(dst []float32, src []byte) {
	for len(src) >= q4_1Bytes {
		b, out := (*[q4_1Bytes]byte)(src), (*[32]float32)(dst)
		d, m := f16at(b[:]), f16at(b[2:])
		for j, q := range b[4:] {
			out[j] = float32(float32(q&15)*d) + m
			out[j+16] = float32(float32(q>>4)*d) + m
		}
		src, dst = src[q4_1Bytes:], dst[32:]
	}
}

func encodeQ4_1(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[q4_1Bytes]byte)(dst)
		m, inv := putRange(b[:], x, 15)
		for j := range 16 {
			lo, hi := nearest(float32(x[j]-m)*inv, 0, 15), nearest(float32(x[j+16]-m)*inv, 0, 15)
			b[4+j] = byte(lo | hi<<4)
		}
		src, dst = src[32:], dst[q4_1Bytes:]
	}
}

func putQ4_1(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	order.PutUint16(b[2:], F32ToF16(-scale*float32(zero)))
	putNibbles(b[4:], codes, 0)
}

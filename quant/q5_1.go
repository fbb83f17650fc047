package quant

// Q5_1: 32 numbers in 24 bytes.
//
//	d   f16      scale
//	m   f16      smallest number
//	qh  u32      bit j is the fifth bit of number j
//	qs  [16]u8   low four bits: number j in the low half of byte j, number j+16 in the high half; x = d·q + m
const Q5_1 Format = 8

const q5_1Bytes = 24

var _ = register(Q5_1, Descriptor{
	Name: "Q5_1", Block: 32, BlockBytes: q5_1Bytes,
	GGUF:   &GGUFType{Tensor: 7, File: 9},
	bound:  bound{0.0324, 0x1p-24, f16Max}, // half a step of 2/31
	decode: decodeQ5_1, encode: encodeQ5_1,
	put: putQ5_1,
})

func decodeQ5_1(dst []float32, src []byte) {
	for len(src) >= q5_1Bytes {
		b, out := (*[q5_1Bytes]byte)(src), (*[32]float32)(dst)
		d, m := f16at(b[:]), f16at(b[2:])
		qh := order.Uint32(b[4:])
		for j, q := range b[8:] {
			out[j] = float32(float32(uint32(q&15)|qh>>j<<4&16)*d) + m
			out[j+16] = float32(float32(uint32(q>>4)|qh>>(j+12)&16)*d) + m
		}
		src, dst = src[q5_1Bytes:], dst[32:]
	}
}

func encodeQ5_1(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[q5_1Bytes]byte)(dst)
		m, inv := putRange(b[:], x, 31)
		high := uint32(0)
		for j := range 16 {
			lo, hi := nearest(float32(x[j]-m)*inv, 0, 31), nearest(float32(x[j+16]-m)*inv, 0, 31)
			b[8+j] = byte(lo&15 | hi<<4)
			high |= uint32(lo>>4)<<j | uint32(hi>>4)<<(j+16)
		}
		order.PutUint32(b[4:], high)
		src, dst = src[32:], dst[q5_1Bytes:]
	}
}

func putQ5_1(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	order.PutUint16(b[2:], F32ToF16(-scale*float32(zero)))
	putFives(b[4:], b[8:], codes, 0)
}

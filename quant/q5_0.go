package quant

// Q5_0: 32 numbers in 22 bytes.
//
//	d   f16      scale; may be negative
//	qh  u32      bit j is the fifth bit of number j
//	qs  [16]u8   low four bits: number j in the low half of byte j, number j+16 in the high half; x = d·(q−16)
const Q5_0 Format = 7

const q5_0Bytes = 22

var _ = register(Q5_0, Descriptor{
	Name: "Q5_0", Block: 32, BlockBytes: q5_0Bytes,
	GGUF:   &GGUFType{Tensor: 6, File: 8},
	bound:  bound{0.0629, 0x1p-24, 16 * f16Max}, // a step of 1/16, as Q4_0
	decode: decodeQ5_0, encode: encodeQ5_0,
	put: putQ5_0,
})

func decodeQ5_0(dst []float32, src []byte) {
	for len(src) >= q5_0Bytes {
		b, out := (*[q5_0Bytes]byte)(src), (*[32]float32)(dst)
		d := f16at(b[:])
		qh := order.Uint32(b[2:])
		for j, q := range b[6:] {
			out[j] = float32(int(uint32(q&15)|qh>>j<<4&16)-16) * d
			out[j+16] = float32(int(uint32(q>>4)|qh>>(j+12)&16)-16) * d
		}
		src, dst = src[q5_0Bytes:], dst[32:]
	}
}

// encodeQ5_0 puts the number of largest magnitude on code 0, as encodeQ4_0 does.
func encodeQ5_0(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[q5_0Bytes]byte)(dst)
		inv := putScale(b[:], peak(x)/-16)
		high := uint32(0)
		for j := range 16 {
			lo, hi := nearest(x[j]*inv, -16, 15)+16, nearest(x[j+16]*inv, -16, 15)+16
			b[6+j] = byte(lo&15 | hi<<4)
			high |= uint32(lo>>4)<<j | uint32(hi>>4)<<(j+16)
		}
		order.PutUint32(b[2:], high)
		src, dst = src[32:], dst[q5_0Bytes:]
	}
}

func putQ5_0(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	putFives(b[2:], b[6:], codes, 16-zero)
}

package quant

// Q4_0: 32 numbers in 18 bytes.
//
//	d   f16      scale; may be negative
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; x = d·(q−8)
const q4_0Bytes = 18

func decodeQ4_0(dst []float32, src []byte) {
	for len(src) >= q4_0Bytes {
		b, out := (*[q4_0Bytes]byte)(src), (*[32]float32)(dst)
		d := f16at(b[:])
		for j, q := range b[2:] {
			out[j] = float32(int(q&15)-8) * d
			out[j+16] = float32(int(q>>4)-8) * d
		}
		src, dst = src[q4_0Bytes:], dst[32:]
	}
}

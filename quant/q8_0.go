package quant

// Q8_0: 32 numbers in 34 bytes.
//
//	d   f16      scale
//	qs  [32]i8   x = d·q
const q8_0Bytes = 34

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

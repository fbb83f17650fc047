package quant

import "encoding/binary"

// Q5_0: 32 numbers in 22 bytes.
//
//	d   f16      scale; may be negative
//	qh  u32      bit j is the fifth bit of number j
//	qs  [16]u8   low four bits: number j in the low half of byte j, number j+16 in the high half; x = d·(q−16)
const q5_0Bytes = 22

func decodeQ5_0(dst []float32, src []byte) {
	for len(src) >= q5_0Bytes {
		b, out := (*[q5_0Bytes]byte)(src), (*[32]float32)(dst)
		d := f16at(b[:])
		qh := binary.LittleEndian.Uint32(b[2:])
		for j, q := range b[6:] {
			out[j] = float32(int(uint32(q&15)|qh>>j<<4&16)-16) * d
			out[j+16] = float32(int(uint32(q>>4)|qh>>(j+12)&16)-16) * d
		}
		src, dst = src[q5_0Bytes:], dst[32:]
	}
}

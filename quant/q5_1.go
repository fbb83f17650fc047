package quant

import "encoding/binary"

// Q5_1: 32 numbers in 24 bytes.
//
//	d   f16      scale
//	m   f16      smallest number
//	qh  u32      bit j is the fifth bit of number j
//	qs  [16]u8   low four bits: number j in the low half of byte j, number j+16 in the high half; x = d·q + m
const q5_1Bytes = 24

func decodeQ5_1(dst []float32, src []byte) {
	for len(src) >= q5_1Bytes {
		b, out := (*[q5_1Bytes]byte)(src), (*[32]float32)(dst)
		d, m := f16at(b[:]), f16at(b[2:])
		qh := binary.LittleEndian.Uint32(b[4:])
		for j, q := range b[8:] {
			out[j] = float32(float32(uint32(q&15)|qh>>j<<4&16)*d) + m
			out[j+16] = float32(float32(uint32(q>>4)|qh>>(j+12)&16)*d) + m
		}
		src, dst = src[q5_1Bytes:], dst[32:]
	}
}

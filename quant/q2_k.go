package quant

// Q2_K: 256 numbers in 84 bytes, sixteen sub-blocks of 16.
//
//	scales  [16]u8   of sub-block i: scale in the low half, minimum in the high half
//	qs      [64]u8   two bits each: byte 32h+k holds, lowest first, numbers 128h+k, +32, +64, +96
//	d       f16      x = d·scale·q − dmin·minimum
//	dmin    f16
const Q2_K Format = 9

const q2_kBytes = 84

var _ = register(Q2_K, Descriptor{
	Name: "Q2_K", Block: superBlock, BlockBytes: q2_kBytes,
	GGUF: &GGUFType{Tensor: 10, File: 10}, Fallback: Q4_0,
	bound:  bound{0.68, 0x1p-23, 15 * f16Max}, // worst found 0.518
	decode: decodeQ2_K, encode: encodeQ2_K, weighted: weightedQ2_K,
})

func decodeQ2_K(dst []float32, src []byte) {
	for len(src) >= q2_kBytes {
		b, out := (*[q2_kBytes]byte)(src), (*[superBlock]float32)(dst)
		d, dmin := f16at(b[80:]), f16at(b[82:])
		for sub := range 16 {
			scale, m := d*float32(b[sub]&15), dmin*float32(b[sub]>>4)
			qs, shift := q2bits(sub)
			qin, o := (*[16]byte)(b[16+qs:]), (*[16]float32)(out[16*sub:])
			for j, q := range qin {
				o[j] = float32(scale*float32(q>>shift&3)) - m
			}
		}
		src, dst = src[q2_kBytes:], dst[superBlock:]
	}
}

// q2bits says where the two-bit codes of sub-block sub (of 16 numbers) lie in Q2_K and Q3_K: the first of sixteen
// bytes, and how far up in each.
func q2bits(sub int) (first int, shift uint) {
	return sub/8*32 + sub%2*16, uint(sub / 2 % 4 * 2)
}

func encodeQ2_K(dst []byte, src []float32) { weightedQ2_K(dst, src, nil) }

func weightedQ2_K(dst []byte, src, importance []float32) {
	grid := affineGrid{sub: 16, top: 3, scaleTop: 15}
	for len(src) >= superBlock {
		b, out := grid.encode((*[superBlock]float32)(src), part(importance, 0, superBlock)), (*[q2_kBytes]byte)(dst)
		order.PutUint16(out[80:], b.d)
		order.PutUint16(out[82:], b.dmin)
		clear(out[16:80])
		for sub := range 16 {
			out[sub] = b.scales[sub] | b.mins[sub]<<4
			qs, shift := q2bits(sub)
			for j := range 16 {
				out[16+qs+j] |= b.codes[16*sub+j] << shift
			}
		}
		src, dst = src[superBlock:], dst[q2_kBytes:]
		importance = rest(importance, superBlock)
	}
}

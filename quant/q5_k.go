package quant

// Q5_K: 256 numbers in 176 bytes, eight sub-blocks of 32.
//
//	d       f16      x = d·scale·q − dmin·minimum
//	dmin    f16
//	scales  [12]u8   eight scales and minima of six bits, see k4Scales
//	qh      [32]u8   fifth bits: bit i of byte k is that of number 32i+k
//	qs      [128]u8  low four bits, laid out as in Q4_K
const Q5_K Format = 12

const q5_kBytes = 176

var _ = register(Q5_K, Descriptor{
	Name: "Q5_K", Block: superBlock, BlockBytes: q5_kBytes,
	GGUF: &GGUFType{Tensor: 13, File: 16}, Fallback: Q5_1,
	bound:  bound{0.1, 0x1p-20, 63 * f16Max}, // 0.073
	decode: decodeQ5_K, encode: encodeQ5_K, weighted: weightedQ5_K,
})

func decodeQ5_K(dst []float32, src []byte) {
	for len(src) >= q5_kBytes {
		b, out := (*[q5_kBytes]byte)(src), (*[superBlock]float32)(dst)
		d, dmin := f16at(b[:]), f16at(b[2:])
		scales, mins := k4Scales((*[12]byte)(b[4:]))
		high := (*[32]byte)(b[16:])
		for sub := 0; sub < 8; sub += 2 {
			s0, m0 := d*float32(scales[sub]), dmin*float32(mins[sub])
			s1, m1 := d*float32(scales[sub+1]), dmin*float32(mins[sub+1])
			qs, o := (*[32]byte)(b[48+16*sub:]), (*[64]float32)(out[32*sub:])
			for j, q := range qs {
				h := high[j] >> sub
				o[j] = float32(s0*float32(q&15|h&1<<4)) - m0
				o[j+32] = float32(s1*float32(q>>4|h&2<<3)) - m1
			}
		}
		src, dst = src[q5_kBytes:], dst[superBlock:]
	}
}

func encodeQ5_K(dst []byte, src []float32) { weightedQ5_K(dst, src, nil) }

func weightedQ5_K(dst []byte, src, importance []float32) {
	grid := affineGrid{sub: 32, top: 31, scaleTop: 63}
	for len(src) >= superBlock {
		b, out := grid.encode((*[superBlock]float32)(src), part(importance, 0, superBlock)), (*[q5_kBytes]byte)(dst)
		order.PutUint16(out[0:], b.d)
		order.PutUint16(out[2:], b.dmin)
		packK4Scales((*[12]byte)(out[4:]), &b.scales, &b.mins)
		clear(out[16:48])
		for sub := 0; sub < 8; sub += 2 {
			codes := (*[64]byte)(b.codes[32*sub:])
			for j := range 32 {
				out[16+j] |= codes[j]>>4<<sub | codes[j+32]>>4<<(sub+1)
				out[48+16*sub+j] = codes[j]&15 | codes[j+32]<<4
			}
		}
		src, dst = src[superBlock:], dst[q5_kBytes:]
		importance = rest(importance, superBlock)
	}
}

package quant

// Q4_K: 256 numbers in 144 bytes, eight sub-blocks of 32.
//
//	d       f16      x = d·scale·q − dmin·minimum
//	dmin    f16
//	scales  [12]u8   eight scales and minima of six bits, see k4Scales
//	qs      [128]u8  byte 32i+k holds number 64i+k in its low half and number 64i+32+k in its high half
const Q4_K Format = 11

const q4_kBytes = 144

var _ = register(Q4_K, Descriptor{
	Name: "Q4_K", Block: superBlock, BlockBytes: q4_kBytes,
	GGUF: &GGUFType{Tensor: 12, File: 14}, Fallback: Q5_0,
	bound:  bound{0.18, 0x1p-20, 63 * f16Max}, // 0.137
	decode: decodeQ4_K, encode: encodeQ4_K, weighted: weightedQ4_K,
})

func decodeQ4_K(dst []float32, src []byte) {
	for len(src) >= q4_kBytes {
		b, out := (*[q4_kBytes]byte)(src), (*[superBlock]float32)(dst)
		d, dmin := f16at(b[:]), f16at(b[2:])
		scales, mins := k4Scales((*[12]byte)(b[4:]))
		for sub := 0; sub < 8; sub += 2 {
			s0, m0 := d*float32(scales[sub]), dmin*float32(mins[sub])
			s1, m1 := d*float32(scales[sub+1]), dmin*float32(mins[sub+1])
			qs, o := (*[32]byte)(b[16+16*sub:]), (*[64]float32)(out[32*sub:])
			for j, q := range qs {
				o[j] = float32(s0*float32(q&15)) - m0
				o[j+32] = float32(s1*float32(q>>4)) - m1
			}
		}
		src, dst = src[q4_kBytes:], dst[superBlock:]
	}
}

// k4Scales unpacks the eight six-bit scales and minima of Q4_K and Q5_K. The first four of each fill the low six bits
// of bytes 0–3 and 4–7; of the last four, the low four bits share bytes 8–11 (scale low, minimum high) and the high two
// fill what is left of bytes 0–7.
func k4Scales(p *[12]byte) (scales, mins [8]byte) {
	for i := range 4 {
		scales[i], mins[i] = p[i]&63, p[i+4]&63
		scales[i+4] = p[i+8]&15 | p[i]>>6<<4
		mins[i+4] = p[i+8]>>4 | p[i+4]>>6<<4
	}
	return scales, mins
}

func encodeQ4_K(dst []byte, src []float32) { weightedQ4_K(dst, src, nil) }

func weightedQ4_K(dst []byte, src, importance []float32) {
	grid := affineGrid{sub: 32, top: 15, scaleTop: 63}
	for len(src) >= superBlock {
		b, out := grid.encode((*[superBlock]float32)(src), part(importance, 0, superBlock)), (*[q4_kBytes]byte)(dst)
		order.PutUint16(out[0:], b.d)
		order.PutUint16(out[2:], b.dmin)
		packK4Scales((*[12]byte)(out[4:]), &b.scales, &b.mins)
		for sub := 0; sub < 8; sub += 2 {
			codes := (*[64]byte)(b.codes[32*sub:])
			for j := range 32 {
				out[16+16*sub+j] = codes[j] | codes[j+32]<<4
			}
		}
		src, dst = src[superBlock:], dst[q4_kBytes:]
		importance = rest(importance, superBlock)
	}
}

// packK4Scales is the inverse of k4Scales.
func packK4Scales(p *[12]byte, scales, mins *[16]byte) {
	for i := range 4 {
		p[i] = scales[i] | scales[i+4]>>4<<6
		p[i+4] = mins[i] | mins[i+4]>>4<<6
		p[i+8] = scales[i+4]&15 | mins[i+4]<<4
	}
}

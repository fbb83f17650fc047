package quant

// Q6_K: 256 numbers in 210 bytes, sixteen sub-blocks of 16.
//
//	ql      [128]u8  low four bits: byte 64h+k holds number 128h+k in its low half and 128h+64+k in its high half
//	qh      [64]u8   high two bits: byte 32h+k holds, lowest first, those of numbers 128h+k, +32, +64, +96
//	scales  [16]i8   of the sub-blocks
//	d       f16      x = d·scale·(q−32)
const Q6_K Format = 13

const q6_kBytes = 210

var _ = register(Q6_K, Descriptor{
	Name: "Q6_K", Block: superBlock, BlockBytes: q6_kBytes,
	GGUF: &GGUFType{Tensor: 14, File: 18}, Fallback: Q8_0,
	bound:  bound{0.04, 0x1p-20, 32 * 128 * f16Max}, // 0.030
	decode: decodeQ6_K, encode: encodeQ6_K, weighted: weightedQ6_K,
})

func decodeQ6_K(dst []float32, src []byte) {
	for len(src) >= q6_kBytes {
		b, out := (*[q6_kBytes]byte)(src), (*[superBlock]float32)(dst)
		d := f16at(b[208:])
		for sub := range 16 {
			scale := d * float32(int8(b[192+sub]))
			ql, shift4, qh, shift2 := q6bits(sub)
			low, high := (*[16]byte)(b[ql:]), (*[16]byte)(b[128+qh:])
			o := (*[16]float32)(out[16*sub:])
			for j := range o {
				o[j] = scale * float32(int(low[j]>>shift4&15|high[j]>>shift2&3<<4)-32)
			}
		}
		src, dst = src[q6_kBytes:], dst[superBlock:]
	}
}

// q6bits says where the codes of sub-block sub (of 16 numbers) lie: the first of sixteen bytes, and how far up in each,
// for the low four bits (in ql) and the high two (in qh).
func q6bits(sub int) (ql int, shift4 uint, qh int, shift2 uint) {
	half, in := sub/8, sub%8
	return 64*half + in%4*16, uint(in / 4 * 4), 32*half + in%2*16, uint(in / 2 * 2)
}

func encodeQ6_K(dst []byte, src []float32) { weightedQ6_K(dst, src, nil) }

func weightedQ6_K(dst []byte, src, importance []float32) {
	grid := symmetricGrid{top: 32, scaleTop: 128}
	for len(src) >= superBlock {
		b, out := grid.encode((*[superBlock]float32)(src), part(importance, 0, superBlock)), (*[q6_kBytes]byte)(dst)
		clear(out[:])
		order.PutUint16(out[208:], b.d)
		for sub := range 16 {
			out[192+sub] = byte(b.scales[sub])
			ql, shift4, qh, shift2 := q6bits(sub)
			for j := range 16 {
				q := byte(b.codes[16*sub+j] + 32)
				out[ql+j] |= q & 15 << shift4
				out[128+qh+j] |= q >> 4 << shift2
			}
		}
		src, dst = src[superBlock:], dst[q6_kBytes:]
		importance = rest(importance, superBlock)
	}
}

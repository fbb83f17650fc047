package quant

// Q3_K: 256 numbers in 110 bytes, sixteen sub-blocks of 16.
//
//	hmask   [32]u8   third bits: bit i of byte k is that of number 32i+k
//	qs      [64]u8   low two bits, laid out as in Q2_K
//	scales  [12]u8   six bits each, see q3Scales
//	d       f16      x = d·(scale−32)·(q−4)
const Q3_K Format = 10

const q3_kBytes = 110

var _ = register(Q3_K, Descriptor{
	Name: "Q3_K", Block: superBlock, BlockBytes: q3_kBytes,
	GGUF: &GGUFType{Tensor: 11, File: 11}, Fallback: Q4_0,
	bound:  bound{0.42, 0x1p-23, 4 * 32 * f16Max}, // 0.315
	decode: decodeQ3_K, encode: encodeQ3_K, weighted: weightedQ3_K,
})

func decodeQ3_K(dst []float32, src []byte) {
	for len(src) >= q3_kBytes {
		b, out := (*[q3_kBytes]byte)(src), (*[superBlock]float32)(dst)
		d := f16at(b[108:])
		scales := q3Scales((*[12]byte)(b[96:]))
		for sub := range 16 {
			scale := d * float32(int(scales[sub])-32)
			qs, shift := q2bits(sub)
			low, high := (*[16]byte)(b[32+qs:]), (*[16]byte)(b[sub%2*16:])
			o := (*[16]float32)(out[16*sub:])
			for j := range o {
				o[j] = scale * float32(int(low[j]>>shift&3|high[j]>>(sub/2)&1<<2)-4)
			}
		}
		src, dst = src[q3_kBytes:], dst[superBlock:]
	}
}

// q3Scales unpacks the sixteen six-bit scales of Q3_K: the low four bits of scale i in a half of byte i mod 8, the
// high two in byte 8 + i mod 4.
func q3Scales(p *[12]byte) (scales [16]byte) {
	for i := range scales {
		scales[i] = p[i%8]>>(i/8*4)&15 | p[8+i%4]>>(i/4*2)&3<<4
	}
	return scales
}

func encodeQ3_K(dst []byte, src []float32) { weightedQ3_K(dst, src, nil) }

func weightedQ3_K(dst []byte, src, importance []float32) {
	grid := symmetricGrid{top: 4, scaleTop: 32}
	for len(src) >= superBlock {
		b, out := grid.encode((*[superBlock]float32)(src), part(importance, 0, superBlock)), (*[q3_kBytes]byte)(dst)
		clear(out[:])
		order.PutUint16(out[108:], b.d)
		for sub := range 16 {
			scale := byte(b.scales[sub] + 32)
			out[96+sub%8] |= scale & 15 << (sub / 8 * 4)
			out[104+sub%4] |= scale >> 4 << (sub / 4 * 2)
			qs, shift := q2bits(sub)
			for j := range 16 {
				q := byte(b.codes[16*sub+j] + 4)
				out[32+qs+j] |= q & 3 << shift
				out[sub%2*16+j] |= q >> 2 << (sub / 2)
			}
		}
		src, dst = src[superBlock:], dst[q3_kBytes:]
		importance = rest(importance, superBlock)
	}
}

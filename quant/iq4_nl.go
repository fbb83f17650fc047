package quant

// IQ4_NL: 32 numbers in 18 bytes, on sixteen uneven levels that lie denser around zero.
//
//	d   f16      scale; may be negative
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; x = d·level[q]
const iq4_nlBytes = 18

// iq4_nlLevels is part of the format (ggml's kvalues_iq4nl).
var iq4_nlLevels = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, src []byte) {
	for len(src) >= iq4_nlBytes {
		b := (*[iq4_nlBytes]byte)(src)
		decodeLevels((*[32]float32)(dst), (*[16]byte)(b[2:]), f16at(b[:]), &iq4_nlLevels)
		src, dst = src[iq4_nlBytes:], dst[32:]
	}
}

// decodeLevels decodes 32 four-bit indices into sixteen levels, each times d.
func decodeLevels(out *[32]float32, qs *[16]byte, d float32, levels *[16]float32) {
	for j, q := range qs {
		out[j] = d * levels[q&15]
		out[j+16] = d * levels[q>>4]
	}
}

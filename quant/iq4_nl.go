package quant

import "math"

// IQ4_NL: 32 numbers in 18 bytes, indices into a codebook of sixteen numbers that are denser around zero.
//
//	d   f16      scale; may be negative
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; x = d·codebook[q]
const IQ4_NL Format = 14

const iq4_nlBytes = 18

var _ = register(IQ4_NL, Descriptor{
	Name: "IQ4_NL", Block: 32, BlockBytes: iq4_nlBytes,
	GGUF:   &GGUFType{Tensor: 20, File: 25},
	bound:  bound{0.23, 0x1p-20, 113 * f16Max}, // 0.177
	decode: decodeIQ4_NL, encode: encodeIQ4_NL, weighted: weightedIQ4_NL,
})

// iq4_nlCodebook is part of the format (ggml's kvalues_iq4nl).
var iq4_nlCodebook = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, src []byte) {
	for len(src) >= iq4_nlBytes {
		b := (*[iq4_nlBytes]byte)(src)
		decodeCodebook((*[32]float32)(dst), (*[16]byte)(b[2:]), f16at(b[:]), &iq4_nlCodebook)
		src, dst = src[iq4_nlBytes:], dst[32:]
	}
}

// decodeCodebook decodes 32 four-bit indices into a codebook of sixteen numbers, each times d.
func decodeCodebook(out *[32]float32, qs *[16]byte, d float32, codebook *[16]float32) {
	for j, q := range qs {
		out[j] = d * codebook[q&15]
		out[j+16] = d * codebook[q>>4]
	}
}

// encodeIQ4_NL tries scales that put the number of largest magnitude on or around either end of the codebook, improves each by
// least squares, and keeps the one with the smallest weighted error.
func encodeIQ4_NL(dst []byte, src []float32) { weightedIQ4_NL(dst, src, nil) }

func weightedIQ4_NL(dst []byte, src, importance []float32) {
	var x, w [32]float64
	for len(src) >= 32 {
		b := (*[iq4_nlBytes]byte)(dst)
		for i, v := range src[:32] {
			x[i] = float64(v)
		}
		errorWeights(w[:], x[:], part(importance, 0, 32))
		inv := putScale(b[:], float32(fitCodebook(&x, &w)))
		for j := range 16 {
			b[2+j] = iq4_nlNearest(float64(src[j]*inv)) | iq4_nlNearest(float64(src[j+16]*inv))<<4
		}
		src, dst = src[32:], dst[iq4_nlBytes:]
		importance = rest(importance, 32)
	}
}

// fitCodebook is fitScale for the codebook of IQ4_NL.
func fitCodebook(x, w *[32]float64) (scale float64) {
	largest := 0.0
	for _, v := range x {
		if math.Abs(v) > math.Abs(largest) {
			largest = v
		}
	}
	if largest == 0 {
		return 0
	}
	gain := 0.0
	for step := -3; step <= 3; step++ {
		for _, end := range [2]float64{-127, 113} {
			inv := (end + float64(step)*end/40) / largest
			var sll, slx float64
			for i, v := range x {
				l := float64(iq4_nlCodebook[iq4_nlNearest(float64(v*inv))])
				wl := w[i] * l
				sll += float64(wl * l)
				slx += float64(wl * v)
			}
			if g := float64(slx*slx) / sll; g > gain {
				gain, scale = g, slx/sll
			}
		}
	}
	return scale
}

// iq4_nlNearest is the index of the codebook number nearest to v; of two, the higher. The middles between them are multiples of a
// half, so a table of half units decides.
func iq4_nlNearest(v float64) byte {
	return iq4_nlIndex[int(2*(min(max(v, -127), 113)+127))]
}

// iq4_nlIndex maps the half units from −127 to 113 to indices.
var iq4_nlIndex = func() (table [2*(113+127) + 1]byte) {
	level := 0
	for i := range table {
		v := float32(i)/2 - 127
		for level < 15 && v >= (iq4_nlCodebook[level]+iq4_nlCodebook[level+1])/2 {
			level++
		}
		table[i] = byte(level)
	}
	return table
}()

package quant

// Q4_0: 32 numbers in 18 bytes.
//
//	d   f16      scale; may be negative
//	qs  [16]u8   number j in the low half of byte j, number j+16 in the high half; x = d·(q−8)
const Q4_0 Format = 5

const q4_0Bytes = 18

var _ = register(Q4_0, Descriptor{
	Name: "Q4_0", Block: 32, BlockBytes: q4_0Bytes,
	GGUF:   &GGUFType{Tensor: 2, File: 2},
	bound:  bound{0.1255, 0x1p-24, 8 * f16Max}, // code 15 is a step of 1/8 short of the peak's mirror image
	decode: decodeQ4_0, encode: encodeQ4_0, weighted: weightedQ4_0,
	put: putQ4_0,
})

func decodeQ4_0(dst []float32, src []byte) {
	for len(src) >= q4_0Bytes {
		b, out := (*[q4_0Bytes]byte)(src), (*[32]float32)(dst)
		d := f16at(b[:])
		for j, q := range b[2:] {
			out[j] = float32(int(q&15)-8) * d
			out[j+16] = float32(int(q>>4)-8) * d
		}
		src, dst = src[q4_0Bytes:], dst[32:]
	}
}

// encodeQ4_0 puts the number of largest magnitude on code 0, which reaches one step further than code 15; the sign of the
// scale turns it there.
func encodeQ4_0(dst []byte, src []float32) {
	for len(src) >= 32 {
		x, b := (*[32]float32)(src), (*[q4_0Bytes]byte)(dst)
		inv := putScale(b[:], peak(x)/-8)
		for j := range 16 {
			lo, hi := nearest(x[j]*inv, -8, 7)+8, nearest(x[j+16]*inv, -8, 7)+8
			b[2+j] = byte(lo | hi<<4)
		}
		src, dst = src[32:], dst[q4_0Bytes:]
	}
}

// weightedQ4_0 searches for the scale with the least error.
func weightedQ4_0(dst []byte, src, importance []float32) {
	var x, w [32]float64
	for len(src) >= 32 {
		b := (*[q4_0Bytes]byte)(dst)
		for i, v := range src[:32] {
			x[i] = float64(v)
		}
		errorWeights(w[:], x[:], importance[:32])
		inv := putScale(b[:], float32(fitScale(x[:], w[:], 8)))
		for j := range 16 {
			lo, hi := nearest(src[j]*inv, -8, 7)+8, nearest(src[j+16]*inv, -8, 7)+8
			b[2+j] = byte(lo | hi<<4)
		}
		src, dst, importance = src[32:], dst[q4_0Bytes:], importance[32:]
	}
}

func putQ4_0(b, codes []byte, scale float32, zero int) {
	order.PutUint16(b, F32ToF16(scale))
	putNibbles(b[2:], codes, 8-zero)
}

package quant

// INT4: 128 numbers in 66 bytes, which is what GPTQ's symmetric and compressed-tensors' W4A16 checkpoints hold with groups of 128.
//
//	d   f16        scale; may be negative
//	qs  [4][16]u8  of 32 numbers each, as Q4_0's: number j in the low half of byte j, number j+16 in the high half; x = d·(q−8)
//
// It is made of floats as weights are loaded, on a GPU by a kernel (backend/cuda/kernels/gemm/packed/quantise_int4.cu) that finds the same bits: every sum
// here has an order, and every product is rounded before it is added.
const INT4 Format = 18

const (
	int4Block = 128
	int4Bytes = 66
)

var _ = register(INT4, Descriptor{
	Name: "INT4", Block: int4Block, BlockBytes: int4Bytes, TimedAs: Q4_0,
	bound:  bound{0.301, 0x1p-22, 8 * f16Max}, // the largest number by a step of a tenth, its mirror image on code 15
	decode: decodeINT4, encode: encodeINT4,
})

// int4Steps are the steps that are tried, as parts of the number of largest magnitude: on code 0, which reaches furthest, on code 15, and cut
// off at code 0, which makes all the others' steps smaller.
var int4Steps = [...]float32{-1. / 8, 1. / 7, -1 / 8.5, -1. / 9, -1 / 9.5, -1. / 10}

func decodeINT4(dst []float32, src []byte) {
	for len(src) >= int4Bytes {
		b, out := (*[int4Bytes]byte)(src), (*[int4Block]float32)(dst)
		d := f16at(b[:])
		for i, q := range b[2:] {
			at := i/16*32 + i%16
			out[at] = float32(int(q&15)-8) * d
			out[at+16] = float32(int(q>>4)-8) * d
		}
		src, dst = src[int4Bytes:], dst[int4Block:]
	}
}

// encodeINT4 takes, of the scales that int4Steps gives, the one of least squared error, the first of several.
func encodeINT4(dst []byte, src []float32) {
	for len(src) >= int4Block {
		x, b := (*[int4Block]float32)(src), (*[int4Bytes]byte)(dst)
		low, high := x[0], x[0]
		for _, v := range x {
			low, high = min(low, v), max(high, v)
		}
		peak := high
		if -low > high {
			peak = low
		}
		best, least := uint16(0), float32(0)
		for i, step := range int4Steps {
			scale := f16Scale(float64(peak * step))
			if loss := lossINT4(x, F16ToF32(scale)); i == 0 || loss < least {
				best, least = scale, loss
			}
		}
		order.PutUint16(b[:], best)
		inv := inverse32(F16ToF32(best))
		for i := range b[2:] {
			at := i/16*32 + i%16
			b[2+i] = byte(nearest(x[at]*inv, -8, 7) + 8 | (nearest(x[at+16]*inv, -8, 7)+8)<<4)
		}
		src, dst = src[int4Block:], dst[int4Bytes:]
	}
}

// lossINT4 is the squared error of a block with a scale d. Four numbers in a row are added up one after the other, and the sums of these by
// halves, as the lanes of a warp do.
func lossINT4(x *[int4Block]float32, d float32) float32 {
	var lanes [int4Block / 4]float32
	inv := inverse32(d)
	for i, v := range x {
		e := v - float32(float32(nearest(v*inv, -8, 7))*d)
		lanes[i/4] += float32(e * e)
	}
	for n := len(lanes) / 2; n > 0; n /= 2 {
		for i := range n {
			lanes[i] += lanes[i+n]
		}
	}
	return lanes[0]
}

// inverse32 is 1/v, and 0 for 0.
func inverse32(v float32) float32 {
	if v == 0 {
		return 0
	}
	return 1 / v
}

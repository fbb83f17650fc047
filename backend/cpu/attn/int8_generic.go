package attn

import (
	"math"
	"unsafe"
)

// genericInt8 are the int8 matmuls in plain Go, one row at a time; a quantized number is an int16.
var genericInt8 = int8Kernels{
	qk: []qkInt8Func{func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int) {
		for c := range 16 {
			column, b := genericColumn(b, pair, off, gap, c)
			sum := *bias
			for i, x := range unsafe.Slice((*int16)(unsafe.Pointer(a)), size) {
				sum += int32(x) * int32(*offset(*b, column+i/4*4*Block+i%4))
			}
			*offset(out, 4*c) = float32(sum) * *scale * *(*float32)(unsafe.Pointer(offset(*b, column-off+scales)))
		}
	}},
	pv: []pvInt8Func{func(out *float32, _ int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, rescale *float32) {
		for c := range 16 {
			column, b := genericColumn(b, pair, off, gap, c)
			sum := int32(0)
			for i, x := range unsafe.Slice((*int16)(unsafe.Pointer(a)), blocks*Block) {
				value := *offset(*offset(b, 8*(i/Block)), column+i%Block/4*4*size+i%4)
				sum += int32(x) * int32(int8(value))
			}
			y := offset(out, 4*c)
			*y = *y**rescale + float32(sum)**scale
		}
	}},
	quantizeQ: func(x, by *float32, n, rows int, most float32, scale *float32, bias *int32) {
		for r := range rows {
			var sum int32
			*offset(scale, 4*r), sum = genericQuantize(unsafe.Slice(offset(x, 4*r*n), n), unsafe.Slice(by, n), most)
			*offset(bias, 4*r) = -128 * sum
		}
	},
	quantizeP: func(x, by *float32, n, rows int, most float32, scale *float32) {
		for r := range rows {
			*offset(scale, 4*r), _ = genericQuantize(unsafe.Slice(offset(x, 4*r*n), n), unsafe.Slice(by, n), most)
		}
	},
}

// genericColumn is where column c of 16 lies: so many bytes into the blocks of a table.
func genericColumn(b **byte, pair, off, gap, c int) (int, **byte) {
	if c < 8 {
		return off + 4*c, b
	}
	return off + gap + 4*(c-8), offset(b, pair)
}

// minMagnitude is the largest magnitude of a row below which it counts as zeros, since the inverse of its step would not be finite.
const minMagnitude = 0x1p-110

// genericQuantize quantizes one row and returns the step of its integers and their sum.
func genericQuantize(row, by []float32, most float32) (scale float32, sum int32) {
	var largest, inverse float32
	for i, f := range by {
		row[i] *= f
		largest = max(largest, float32(math.Abs(float64(row[i]))))
	}
	if largest >= minMagnitude {
		inverse = most / largest
	}
	levels := unsafe.Slice((*int16)(unsafe.Pointer(&row[0])), len(row))
	for i, v := range row {
		levels[i] = int16(math.RoundToEven(float64(v * inverse)))
		sum += int32(levels[i])
	}
	return largest / most, sum
}

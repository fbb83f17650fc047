package attn

import (
	"math"
	"unsafe"
)

// genericBytes are the products of bytes in plain Go, one row at a time; a rounded number is an int16.
var genericBytes = byteKernels{
	scores: []scoreFunc{func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int) {
		for c := range 16 {
			column, b := genericColumn(b, pair, off, gap, c)
			sum := *bias
			for i, x := range unsafe.Slice((*int16)(unsafe.Pointer(a)), size) {
				sum += int32(x) * int32(*move(*b, column+i/4*4*Block+i%4))
			}
			*move(out, 4*c) = float32(sum) * *scale * *(*float32)(unsafe.Pointer(move(*b, column-off+scales)))
		}
	}},
	values: []valueFunc{func(out *float32, _ int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, correct *float32) {
		for c := range 16 {
			column, b := genericColumn(b, pair, off, gap, c)
			sum := int32(0)
			for i, x := range unsafe.Slice((*int16)(unsafe.Pointer(a)), blocks*Block) {
				value := *move(*move(b, 8*(i/Block)), column+i%Block/4*4*size+i%4)
				sum += int32(x) * int32(int8(value))
			}
			y := move(out, 4*c)
			*y = *y**correct + float32(sum)**scale
		}
	}},
	roundQueries: func(x, by *float32, n, rows int, most float32, scale *float32, bias *int32) {
		for r := range rows {
			var sum int32
			*move(scale, 4*r), sum = genericRound(unsafe.Slice(move(x, 4*r*n), n), unsafe.Slice(by, n), most)
			*move(bias, 4*r) = -128 * sum
		}
	},
	roundPowers: func(x, by *float32, n, rows int, most float32, scale *float32) {
		for r := range rows {
			*move(scale, 4*r), _ = genericRound(unsafe.Slice(move(x, 4*r*n), n), unsafe.Slice(by, n), most)
		}
	},
}

// genericColumn is where column c of 16 lies: so many bytes into the blocks of a table.
func genericColumn(b **byte, pair, off, gap, c int) (int, **byte) {
	if c < 8 {
		return off + 4*c, b
	}
	return off + gap + 4*(c-8), move(b, pair)
}

// leastLevels is the largest magnitude of a row below which it counts as zeros, since what they would be multiplied by is
// not finite any more.
const leastLevels = 0x1p-110

// genericRound rounds one row and returns what a level stands for and their sum.
func genericRound(row, by []float32, most float32) (scale float32, sum int32) {
	var largest, inverse float32
	for i, f := range by {
		row[i] *= f
		largest = max(largest, float32(math.Abs(float64(row[i]))))
	}
	if largest >= leastLevels {
		inverse = most / largest
	}
	levels := unsafe.Slice((*int16)(unsafe.Pointer(&row[0])), len(row))
	for i, v := range row {
		levels[i] = int16(math.RoundToEven(float64(v * inverse)))
		sum += int32(levels[i])
	}
	return largest / most, sum
}

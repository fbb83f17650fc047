package quant

import (
	"fmt"
	"math"
)

// bound says how far a number may be off after Encode and Decode:
//
//	|x − x′| ≤ relative·m + absolute
//
// where m is the largest magnitude in the block of x (in its row, where that has one scale), or |x| itself for plain floats. For most
// formats it follows from the layout. The encoders of the K formats and the IQ formats search for the smallest squared error of a whole
// block; their bounds are about a third above the worst that a hill climb over blocks found, and are not proven.
type bound struct {
	relative float64
	absolute float64 // what comes on top where a scale is so small that its float type has few bits left
	limit    float64 // the magnitude from which on Encode refuses a number
}

const f16Max = 65504

// checkNumbers finds the first number of src that f cannot hold.
func checkNumbers(f Format, src []float32) error {
	limit := float32(descriptors[f].bound.limit)
	float := f.Block() == 1
	for i, v := range src {
		if max(v, -v) < limit { // false for NaN
			continue
		}
		infinite := math.IsInf(float64(v), 0)
		if float && (v != v || infinite) {
			continue
		}
		if v != v || infinite {
			return fmt.Errorf("quant: number %d is %v, and a block of %s holds only finite numbers", i, v, f)
		}
		return fmt.Errorf("quant: number %d is %v, and the magnitude of a number in %s must be below %v", i, v, f, limit)
	}
	return nil
}

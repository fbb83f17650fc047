package quant

import (
	"fmt"
	"math"
)

// bound says how far a number may be off after Encode and Decode:
//
//	|x − x′| ≤ relative·m + absolute
//
// where m is the largest magnitude in the block of x (in its row, of FP8 and INT8), or |x| itself for plain floats.
type bound struct {
	relative float64
	absolute float64 // what comes on top where a scale is so small that its float type has few bits left
	limit    float64 // the magnitude from which on Encode refuses a number
}

const f16Max = 65504

// bounds are what a round trip in each format may lose. For most they follow from the layout. The encoders of the K formats and IQ4_NL
// search for the smallest squared error of a whole block; their bounds are about a third above the worst that a hill climb
// over blocks found, and are not proven.
var bounds = [formatCount]bound{
	F32:    {0, 0, math.Inf(1)},
	F16:    {0x1p-11, 0x1p-25, 65520},          // half a unit of 11 bits; half of the smallest number; rounds to Inf
	BF16:   {0x1p-8, 0x1p-134, 0x1.ffp127},     // likewise of 8 bits
	Q8_0:   {0.00394, 0x1p-25, 127 * f16Max},   // half a step of 1/127
	Q4_0:   {0.1255, 0x1p-24, 8 * f16Max},      // code 15 is a step of 1/8 short of the peak's mirror image
	Q4_1:   {0.0668, 0x1p-24, f16Max},          // half a step of 2/15
	Q5_0:   {0.0629, 0x1p-24, 16 * f16Max},     // a step of 1/16, as Q4_0
	Q5_1:   {0.0324, 0x1p-24, f16Max},          // half a step of 2/31
	Q2_K:   {0.68, 0x1p-23, 15 * f16Max},       // worst found 0.518
	Q3_K:   {0.42, 0x1p-23, 4 * 32 * f16Max},   // 0.315
	Q4_K:   {0.18, 0x1p-20, 63 * f16Max},       // 0.137
	Q5_K:   {0.1, 0x1p-20, 63 * f16Max},        // 0.073
	Q6_K:   {0.04, 0x1p-20, 32 * 128 * f16Max}, // 0.030
	IQ4_NL: {0.23, 0x1p-20, 113 * f16Max},      // 0.177
	MXFP4:  {0.25, 0x1p-128, math.Inf(1)},      // 8 units, cut off at 6
	FP8:    {0.0358, tinyRow, 0x1.ffp127},      // half a step of 32 at 448
	INT8:   {0.00394, tinyRow, 0x1.ffp127},     // half a step of 1/127
	INT4:   {0.301, 0x1p-22, 8 * f16Max},       // the largest number by a step of a tenth, its mirror image on code 15
}

// checkNumbers finds the first number of src that f cannot hold.
func checkNumbers(f Format, src []float32) error {
	limit := float32(bounds[f].limit)
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

package cpu

import (
	"math"
	"testing"
)

// TestRoundTinyRows: rows so small that the inverse of their scale is beyond a float become zeros, not NaN, and zeros stay zeros; a number that is not
// finite is still seen.
func TestRoundTinyRows(t *testing.T) {
	for _, x := range [][]float32{{1e-38, -3e-39, 0}, {0, 0}, {math.SmallestNonzeroFloat32, 0}} {
		y := make([]float32, len(x))
		roundRow(y, x, float32(math.Inf(1)))
		for i, v := range y {
			if v != 0 {
				t.Errorf("%g of %g became %g", x[i], x, v)
			}
		}
	}
	y := make([]float32, 2)
	if roundRow(y, []float32{1, float32(math.NaN())}, float32(math.Inf(1))); y[1] == y[1] {
		t.Errorf("NaN became %g", y[1])
	}
	if roundRow(y, []float32{1, float32(math.Inf(-1))}, float32(math.Inf(1))); y[0] == y[0] {
		t.Errorf("a row with an infinite number became %g", y)
	}
}

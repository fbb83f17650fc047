package quant

import (
	"math/rand/v2"
	"testing"
)

// weightedLoss is the sum of the squared errors of numbers that are encoded with importances, each times its weight.
func weightedLoss(t *testing.T, f Format, x, importances, weights []float32) (sum float64) {
	t.Helper()
	data, y := make([]byte, f.RowBytes(len(x))), make([]float32, len(x))
	if err := EncodeWeighted(f, data, x, importances); err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	Decode(f, y, data)
	for i, v := range y {
		e := float64(v - x[i])
		sum += e * e * float64(weights[i])
	}
	return sum
}

// TestEncodeWeighted: with importances the error that they count is smaller than without, and with equal ones every format takes its rows.
func TestEncodeWeighted(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const cols, rows = 2 * superBlock, 16
	importance := make([]float32, cols)
	for i := range importance {
		importance[i] = 0.01
		if rng.IntN(8) == 0 {
			importance[i] = 10
		}
	}
	for _, f := range Formats() {
		d := f.Descriptor()
		plain, weighted := 0.0, 0.0
		for range rows {
			x := make([]float32, cols)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			plain += weightedLoss(t, f, x, nil, importance)
			weighted += weightedLoss(t, f, x, importance, importance)
		}
		if d.weighted == nil && plain != weighted || d.weighted != nil && weighted > 0.9*plain {
			t.Errorf("%s: the error is %g with importances, and %g without", f, weighted, plain)
		}
	}
}

// TestNoImportance: numbers of columns that a text has not used, blocks of them or all, are rounded no worse than without importances, by a half.
func TestNoImportance(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const cols = 2 * superBlock
	none, half, unused := make([]float32, cols), make([]float32, cols), make([]float32, cols)
	for i := range superBlock {
		half[superBlock+i], unused[i] = 3, 1
	}
	for _, f := range Formats() {
		if f.Descriptor().weighted == nil {
			continue
		}
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		plain := weightedLoss(t, f, x, nil, unused)
		for _, importances := range [][]float32{none, half} {
			if loss := weightedLoss(t, f, x, importances, unused); loss > 1.5*plain {
				t.Errorf("%s: the error is %g, and %g without importances", f, loss, plain)
			}
		}
	}
}

package quant

import (
	"math/rand/v2"
	"testing"
)

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
			lossOf := func(importances []float32) (sum float64) {
				data, y := make([]byte, f.RowBytes(cols)), make([]float32, cols)
				if err := EncodeWeighted(f, data, x, importances); err != nil {
					t.Fatalf("%s: %v", f, err)
				}
				Decode(f, y, data)
				for i, v := range y {
					e := float64(v - x[i])
					sum += e * e * float64(importance[i])
				}
				return sum
			}
			plain += lossOf(nil)
			weighted += lossOf(importance)
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
	none, half := make([]float32, cols), make([]float32, cols)
	for i := superBlock; i < cols; i++ {
		half[i] = 3
	}
	for _, f := range Formats() {
		if f.Descriptor().weighted == nil {
			continue
		}
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		lossOf := func(importances []float32) (sum float64) {
			data, y := make([]byte, f.RowBytes(cols)), make([]float32, cols)
			if err := EncodeWeighted(f, data, x, importances); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			Decode(f, y, data)
			for i, v := range y[:superBlock] {
				sum += float64(v-x[i]) * float64(v-x[i])
			}
			return sum
		}
		plain := lossOf(nil)
		for _, importances := range [][]float32{none, half} {
			if loss := lossOf(importances); loss > 1.5*plain {
				t.Errorf("%s: the error is %g, and %g without importances", f, loss, plain)
			}
		}
	}
}

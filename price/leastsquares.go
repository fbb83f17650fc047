package price

import "math"

// LeastSquares finds x ≥ 0, n numbers, with the least Σ (row·x − 1)², by coordinate descent.
func LeastSquares(rows [][]float64, n int) []float64 {
	size := make([]float64, n)
	for _, r := range rows {
		for k, v := range r {
			size[k] += v * v
		}
	}
	x, left := make([]float64, n), make([]float64, len(rows)) // left is 1 − row·x
	for i := range left {
		left[i] = 1
	}
	for range 20000 {
		moved := 0.0
		for k := range x {
			if size[k] == 0 {
				continue
			}
			step := 0.0
			for i, r := range rows {
				step += r[k] * left[i]
			}
			step = max(step/size[k], -x[k])
			x[k] += step
			for i, r := range rows {
				left[i] -= step * r[k]
			}
			moved = max(moved, math.Abs(step)*math.Sqrt(size[k]))
		}
		if moved < 1e-9 {
			break
		}
	}
	return x
}

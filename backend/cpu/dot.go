package cpu

// dot is Σ x[i]·y[i] over len(x), in eight sums that do not wait for one another.
func dot(x, y []float32) float32 {
	y = y[:len(x)]
	var s [8]float32
	i := 0
	for ; i+8 <= len(x); i += 8 {
		a, b := x[i:i+8:i+8], y[i:i+8:i+8]
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		s[4] += a[4] * b[4]
		s[5] += a[5] * b[5]
		s[6] += a[6] * b[6]
		s[7] += a[7] * b[7]
	}
	for ; i < len(x); i++ {
		s[0] += x[i] * y[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// axpy adds f × x to y.
func axpy(y []float32, f float32, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += f * v
	}
}

package quantize

import "math"

// smooth is SmoothQuant's scales of an input (Xiao et al., arXiv:2211.10438): of the largest magnitudes of its columns x and of the matrices' w,
// x^a / w^(1−a). Unless an exponent is given, it is the one with the least error of rows that are rounded to 8 bits, each with its own scale, times
// matrices that are; nil: none is better than none.
func (q *job) smooth(m *maker, ws [][]float32, s *stats) []float32 {
	cols := s.cols
	w := make([]float64, cols)
	for _, x := range ws {
		for i, v := range x {
			w[i%cols] = max(w[i%cols], math.Abs(float64(v)))
		}
	}
	scaleFor := func(a float64) []float32 {
		scale := make([]float32, cols)
		for c := range scale {
			v := 1.0
			if x := float64(s.largest[c]); x > 0 && w[c] > 0 {
				v = math.Pow(x, a) / math.Pow(w[c], 1-a)
			}
			scale[c] = float32(max(v, 1e-5))
		}
		m.share(scale)
		return scale
	}
	if q.o.Alpha > 0 {
		return scaleFor(q.o.Alpha)
	}
	var best []float32
	least := q.lossOfBytes(ws, nil, s)
	for a := 0.2; a < 0.99; a += 0.05 {
		scale := scaleFor(a)
		if loss := q.lossOfBytes(ws, scale, s); loss < least {
			best, least = scale, loss
		}
	}
	return best
}

// lossOfBytes is the squared error of the sample's results with inputs, divided by scale, and matrices, multiplied by it, in 8 bits; nil: as they
// are.
func (q *job) lossOfBytes(ws [][]float32, scale []float32, s *stats) float64 {
	cols, n := s.cols, len(s.sample)/s.cols
	x := make([]float32, len(s.sample))
	for i, v := range s.sample {
		x[i] = v
		if scale != nil {
			x[i] /= scale[i%cols]
		}
	}
	roundRows(x, cols)
	sum := 0.0
	for _, w := range ws {
		rows := len(w) / cols
		scaled := make([]float32, len(w))
		for i, v := range w {
			scaled[i] = v
			if scale != nil {
				scaled[i] *= scale[i%cols]
			}
		}
		roundRows(scaled, cols)
		want, got := make([]float32, n*rows), make([]float32, n*rows)
		q.engine.MulAll(want, rows, s.sample, n, w, rows, cols)
		q.engine.MulAll(got, rows, x, n, scaled, rows, cols)
		for i, v := range want {
			d := float64(got[i] - v)
			sum += d * d
		}
	}
	return sum
}

// roundRows rounds each row to 127ths of its largest magnitude.
func roundRows(x []float32, cols int) {
	for at := 0; at < len(x); at += cols {
		row := x[at : at+cols]
		largest := float32(0)
		for _, v := range row {
			largest = max(largest, v, -v)
		}
		if largest == 0 {
			continue
		}
		scale := largest / 127
		for i, v := range row {
			row[i] = scale * float32(math.RoundToEven(float64(v/scale)))
		}
	}
}

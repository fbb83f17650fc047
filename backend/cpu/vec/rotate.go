package vec

// RotateHalf is RoPE with the pairs (x[i], x[i+half]) (NeoX style); angles are [half] pairs of cosine and sine.
func (o Ops) RotateHalf(y, x, angles []float32) {
	half := len(angles) / 2
	_, _ = x[len(angles)-1], y[len(angles)-1]
	whole := half / o.k.lanes
	if whole > 0 {
		o.k.rotateHalf(&y[0], &x[0], &angles[0], half, whole)
	}
	for i := whole * o.k.lanes; i < half; i++ {
		cos, sin := angles[2*i], angles[2*i+1]
		p, q := x[i], x[i+half]
		y[i], y[i+half] = p*cos-q*sin, q*cos+p*sin
	}
}

// RotateAdjacent is RoPE with the pairs (x[2i], x[2i+1]) (GPT-J style, interleaved).
func (o Ops) RotateAdjacent(y, x, angles []float32) {
	_, _ = x[len(angles)-1], y[len(angles)-1]
	whole := len(angles) / o.k.lanes
	if whole > 0 {
		o.k.rotateAdjacent(&y[0], &x[0], &angles[0], whole)
	}
	for i := whole * o.k.lanes; i < len(angles); i += 2 {
		cos, sin := angles[i], angles[i+1]
		p, q := x[i], x[i+1]
		y[i], y[i+1] = p*cos-q*sin, q*cos+p*sin
	}
}

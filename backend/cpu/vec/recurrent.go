package vec

// AddProduct is y[i] += x[i]·z[i].
func (o Ops) AddProduct(y, x, z []float32) {
	x, z = x[:len(y)], z[:len(y)]
	for i := range y {
		y[i] += x[i] * z[i]
	}
}

// DeltaStep is one token of the gated delta rule (graph.GatedDelta) in a head's state s [len(k)][len(v)]: s ← g·s, δ = rate·(v − sᵀk),
// s ← s + k ⊗ δ, y = sᵀq. delta is room for δ.
func (o Ops) DeltaStep(s, q, k, v []float32, g, rate float32, delta, y []float32) {
	n := len(v)
	clear(delta)
	for i, ki := range k {
		o.Axpby(delta, s[i*n:(i+1)*n], 1, g*ki)
	}
	for j, c := range v {
		delta[j] = rate * (c - delta[j])
	}
	clear(y)
	for i, ki := range k {
		row := s[i*n : (i+1)*n]
		o.Axpby(row, delta, g, ki)
		o.Axpby(y, row, 1, q[i])
	}
}

// StateStep is one token of a row of a state space layer's state (graph.SSD): h ← g·h + by·in. It returns h·read.
func (o Ops) StateStep(h, in, read []float32, g, by float32) float32 {
	o.Axpby(h, in, g, by)
	return o.Dot(h, read)
}

package vec

import "math"

// deltaSteps is the gated delta rule, token by token, for columns of a head's state s [keys][stride bytes]. A token's numbers in c are four rows
// of keys: what its read of the state is multiplied by (decay · key), the decay, the key and the query; rates has one number for each. v and y
// are the columns of its values and its output, vStride and yStride bytes from one token's to the next's.
type deltaSteps func(s *float32, stride int, c *float32, keys, tokens int, v *float32, vStride int, y *float32, yStride int, rates *float32, n int)

// AddProduct is y[i] += x[i]·z[i].
func (o Ops) AddProduct(y, x, z []float32) {
	if n := len(y); n > 0 {
		_, _ = x[n-1], z[n-1]
		o.k.addProduct(&y[0], &x[0], &z[0], n)
	}
}

// DeltaRows are the rows of DeltaSteps' coefficients for a token.
const DeltaRows = 4

// DeltaSteps is a token of the delta rule (graph.GatedDelta, graph.KimiDelta) for each of rates, in a head's state s [keys][size]:
// s ← diag(d)·s, δ = rate·(v − sᵀk), s ← s + k ⊗ δ, y = sᵀq. c has d·k, d, k and q of each token, rows of keys numbers. v and y begin with the
// first token's size numbers, and the next token's are vStride and yStride numbers on. What a token gives does not depend on how many come with it.
func (o Ops) DeltaSteps(s, c, rates, v, y []float32, keys, vStride, yStride int) {
	tokens, size := len(rates), len(s)/keys
	if tokens == 0 || size == 0 {
		return
	}
	_, _, _ = c[tokens*DeltaRows*keys-1], v[(tokens-1)*vStride+size-1], y[(tokens-1)*yStride+size-1]
	for at := 0; at < size; {
		steps, n := o.k.deltaWide, o.k.deltaWidth
		if steps == nil || size-at < n {
			steps, n = o.k.delta, min(o.k.deltaMost, size-at)
		}
		steps(&s[at], 4*size, &c[0], keys, tokens, &v[at], 4*vStride, &y[at], 4*yStride, &rates[0], n)
		at += n
	}
}

// StateSteps is a token of rows of a state space layer's state h [len(x)][len(in)] (graph.SSD): h ← decay·h + (step·x) ⊗ in, y = h·read + skip·x.
func (o Ops) StateSteps(h, x, y, in, read []float32, decay, step, skip float32) {
	rows, n := len(x), len(in)
	if rows == 0 || n == 0 {
		return
	}
	_, _, _ = h[rows*n-1], y[rows-1], read[n-1]
	o.k.stateSteps(&h[0], &x[0], &y[0], rows, &in[0], &read[0], n, decay, step, skip)
}

// ScanSteps is a token of rows of a selective scan's state h [len(steps)][len(in)] (graph.SelectiveScan), whose rates are as many:
// h ← exp(steps·rates)·h + by ⊗ in, y = h·read.
func (o Ops) ScanSteps(h, rates, steps, by, y, in, read []float32) {
	rows, n := len(steps), len(in)
	if rows == 0 || n == 0 {
		return
	}
	_, _, _, _, _ = h[rows*n-1], rates[rows*n-1], by[rows-1], y[rows-1], read[n-1]
	o.k.scanSteps(&h[0], &rates[0], &steps[0], &by[0], &y[0], rows, &in[0], &read[0], n)
}

func genericDelta(s *float32, stride int, c *float32, keys, tokens int, v *float32, vStride int, y *float32, yStride int, rates *float32, n int) {
	stride, vStride, yStride = stride/4, vStride/4, yStride/4
	state, vs, ys := slice(s, (keys-1)*stride+n), slice(v, (tokens-1)*vStride+n), slice(y, (tokens-1)*yStride+n)
	cs := slice(c, tokens*DeltaRows*keys)
	for t, rate := range slice(rates, tokens) {
		read, decay, key, query := cs[:keys], cs[keys:2*keys], cs[2*keys:3*keys], cs[3*keys:4*keys]
		cs = cs[4*keys:]
		value, out := vs[t*vStride:][:n], ys[t*yStride:][:n]
		for j := range n {
			sum, got := float32(0), float32(0)
			for i, k := range read {
				sum += k * state[i*stride+j]
			}
			delta := rate * (value[j] - sum)
			for i, k := range key {
				p := &state[i*stride+j]
				*p = decay[i]**p + k*delta
				got += *p * query[i]
			}
			out[j] = got
		}
	}
}

func genericStateSteps(h, x, y *float32, rows int, in, read *float32, n int, decay, step, skip float32) {
	state, ys, bs, cs := slice(h, rows*n), slice(y, rows), slice(in, n), slice(read, n)
	for i, v := range slice(x, rows) {
		sum, row := float32(0), state[i*n:(i+1)*n]
		for j, b := range bs {
			row[j] = decay*row[j] + step*v*b
			sum += row[j] * cs[j]
		}
		ys[i] = sum + skip*v
	}
}

func genericScanSteps(h, rates, steps, by, y *float32, rows int, in, read *float32, n int) {
	state, as, more, ys, bs, cs := slice(h, rows*n), slice(rates, rows*n), slice(by, rows), slice(y, rows), slice(in, n), slice(read, n)
	for i, step := range slice(steps, rows) {
		sum, row := float32(0), state[i*n:(i+1)*n]
		for j, b := range bs {
			row[j] = float32(math.Exp(float64(step*as[i*n+j])))*row[j] + more[i]*b
			sum += row[j] * cs[j]
		}
		ys[i] = sum
	}
}

package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// kimiDeltaScratch holds a worker's normalised query and key, the decays of the key's numbers, and Sᵀk.
func kimiDeltaScratch(n *graph.Node, _ backend.Limits) int64 {
	return (4*4*int64(n.Op.(graph.KimiDelta).Size) + 63) / 64 * 64
}

// bindKimiDelta gives every worker some heads of some sequences.
func bindKimiDelta(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.KimiDelta), d.vec
	var in [5][]float32
	for i := range in {
		in[i] = floats(a.In[i])
	}
	decay, bias, state, out := decoded(a.Weights[0]), a.Weights[1].(vector), newStateOf(n, a), floats(a.Out[0])
	scratch := floats(a.Scratch)
	each, width, size := len(scratch)/d.pool.N(), o.Heads*o.Size, o.Size*o.Size
	root := 1 / float32(math.Sqrt(float64(o.Size)))
	return func(w *worker, b *backend.Batch) {
		mine := scratch[w.id*each:][:4*o.Size]
		q, k, g, delta := mine[:o.Size], mine[o.Size:2*o.Size], mine[2*o.Size:3*o.Size], mine[3*o.Size:]
		from, to := w.share(b.Seqs()*o.Heads, 1)
		for i := from; i < to; i++ {
			s, h := i/o.Heads, i%o.Heads
			st := state.of(b, s)[h*size : (h+1)*size]
			if b.Past(s) == 0 {
				clear(st)
			}
			for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
				at := r*width + h*o.Size
				unit(v, q, in[0][at:at+o.Size], root)
				unit(v, k, in[1][at:at+o.Size], 1)
				for j, x := range in[3][at : at+o.Size] {
					g[j] = float32(math.Exp(float64(decay[h]) * softplus(x+bias[h*o.Size+j])))
				}
				rate := float32(1 / (1 + math.Exp(-float64(in[4][r*o.Heads+h]))))
				kimiStep(v, st, q, k, in[2][at:at+o.Size], g, rate, delta, out[at:at+o.Size])
			}
		}
	}, nil
}

// kimiStep is one token in a head's state s [len(k)][len(x)]: s ← diag(g)·s, δ = rate·(x − sᵀk), s ← s + k ⊗ δ, y = sᵀq. delta is room for δ.
func kimiStep(v vec.Ops, s, q, k, x, g []float32, rate float32, delta, y []float32) {
	n := len(x)
	clear(delta)
	for i, ki := range k {
		v.Axpby(delta, s[i*n:(i+1)*n], 1, g[i]*ki)
	}
	for j, c := range x {
		delta[j] = rate * (c - delta[j])
	}
	clear(y)
	for i, ki := range k {
		row := s[i*n : (i+1)*n]
		v.Axpby(row, delta, g[i], ki)
		v.Axpby(y, row, 1, q[i])
	}
}

package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// Recurrent layers go through a sequence token by token, so that what a sequence gets depends neither on how its prompt is cut nor on what
// is beside it, to the last bit. Workers divide channels, or heads of sequences.

// stateOf is the states of a recurrent node, whose last input they are: [states][size].
type stateOf struct {
	all         []float32
	group, size int
}

func newStateOf(n *graph.Node, a backend.Args) stateOf {
	last := len(n.In) - 1
	c := n.In[last].Cache
	return stateOf{floats(a.In[last]), c.Group, c.State.Len()}
}

// of is the state of sequence s.
func (t *stateOf) of(b *backend.Batch, s int) []float32 {
	at := int(b.Table(t.group).States[s]) * t.size
	return t.all[at : at+t.size]
}

// decoded is a weight's numbers, row by row.
func decoded(w backend.Weight) []float32 {
	if v, ok := w.(vector); ok {
		return v
	}
	return w.(*matrix).Floats()
}

// byColumn is rows × cols numbers as cols × rows.
func byColumn(x []float32, cols int) []float32 {
	rows := len(x) / cols
	y := make([]float32, len(x))
	for i, v := range x {
		y[i%cols*rows+i/cols] = v
	}
	return y
}

// bindCausalConv gives every worker its channels of all tokens.
func bindCausalConv(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, channels, width := floats(a.In[0]), floats(a.Out[0]), n.In[0].Axis.Len(), n.Weights[0].In.Len()
	taps := byColumn(decoded(a.Weights[0]), width) // [width][channels]
	state, silu := newStateOf(n, a), n.Op.(graph.CausalConv).Silu
	bias := make(vector, channels)
	if len(a.Weights) == 2 {
		bias = a.Weights[1].(vector)
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.columns(channels)
		if from >= to {
			return
		}
		for s := range b.Seqs() {
			past := state.of(b, s)
			if b.Past(s) == 0 {
				for i := range width - 1 {
					clear(past[i*channels+from : i*channels+to])
				}
			}
			first, last := int(b.QStart[s]), int(b.QStart[s+1])
			// input is the row of token first+t, or of one before the step.
			input := func(t int) []float32 {
				if t < 0 {
					return past[(width-1+t)*channels+from:][:to-from]
				}
				return in[(first+t)*channels+from:][:to-from]
			}
			for t := range last - first {
				y := out[(first+t)*channels+from:][:to-from]
				copy(y, bias[from:to])
				for i := range width {
					v.AddProduct(y, input(t-width+1+i), taps[i*channels+from:][:to-from])
				}
				if silu {
					v.Act(vec.Silu, y, y)
				}
			}
			for i := range width - 1 { // the oldest first: what a row is replaced by is newer
				copy(past[i*channels+from:][:to-from], input(last-first-width+1+i))
			}
		}
	}
}

// softplus is ln(1 + eˣ).
func softplus(x float32) float64 {
	if x > 20 {
		return float64(x)
	}
	return math.Log1p(math.Exp(float64(x)))
}

// gatedDeltaScratch holds a worker's normalised query and key, and Sᵀk.
func gatedDeltaScratch(n *graph.Node, _ backend.Limits) int64 {
	o := n.Op.(graph.GatedDelta)
	return (4*int64(2*o.KeySize+o.ValueSize) + 63) / 64 * 64
}

// bindGatedDelta gives every worker some value heads of some sequences.
func bindGatedDelta(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.GatedDelta), d.vec
	x, alpha, beta, out := floats(a.In[0]), floats(a.In[1]), floats(a.In[2]), floats(a.Out[0])
	decay, bias, state := a.Weights[0].(vector), a.Weights[1].(vector), newStateOf(n, a)
	scratch := floats(a.Scratch)
	each, width, keys, size := len(scratch)/d.pool.N(), o.Width(), o.KeyHeads*o.KeySize, o.KeySize*o.ValueSize
	root := 1 / float32(math.Sqrt(float64(o.KeySize)))
	return func(w *worker, b *backend.Batch) {
		q, k := scratch[w.id*each:][:o.KeySize], scratch[w.id*each+o.KeySize:][:o.KeySize]
		delta := scratch[w.id*each+2*o.KeySize:][:o.ValueSize]
		from, to := w.share(b.Seqs()*o.ValueHeads, 1)
		for i := from; i < to; i++ {
			s, h := i/o.ValueHeads, i%o.ValueHeads
			st := state.of(b, s)[h*size : (h+1)*size]
			if b.Past(s) == 0 {
				clear(st)
			}
			for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
				row := x[r*width : (r+1)*width]
				at := o.KeyHead(h) * o.KeySize
				unit(v, q, row[at:at+o.KeySize], root)
				unit(v, k, row[keys+at:keys+at+o.KeySize], 1)
				g := float32(math.Exp(float64(decay[h]) * softplus(alpha[r*o.ValueHeads+h]+bias[h])))
				rate := float32(1 / (1 + math.Exp(-float64(beta[r*o.ValueHeads+h]))))
				y, value := out[(r*o.ValueHeads+h)*o.ValueSize:][:o.ValueSize], row[2*keys+h*o.ValueSize:][:o.ValueSize]
				v.DeltaStep(st, q, k, value, g, rate, delta, y)
			}
		}
	}, nil
}

// unit is x divided by its length, times a number.
func unit(v vec.Ops, y, x []float32, by float32) {
	v.Multiply(y, x, by*float32(1/math.Sqrt(float64(v.Dot(x, x))+graph.L2Eps)))
}

// bindSSD gives every worker some heads of some sequences.
func bindSSD(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.SSD), d.vec
	x, dt, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	decay, bias, skip, state := a.Weights[0].(vector), a.Weights[1].(vector), a.Weights[2].(vector), newStateOf(n, a)
	width, inner, groups := o.Width(), o.Heads*o.HeadSize, o.Groups*o.StateSize
	size := o.HeadSize * o.StateSize
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(b.Seqs()*o.Heads, 1)
		for i := from; i < to; i++ {
			s, h := i/o.Heads, i%o.Heads
			st := state.of(b, s)[h*size : (h+1)*size]
			if b.Past(s) == 0 {
				clear(st)
			}
			group := h / (o.Heads / o.Groups) * o.StateSize
			for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
				row := x[r*width : (r+1)*width]
				in, read := row[inner+group:][:o.StateSize], row[inner+groups+group:][:o.StateSize]
				step := o.Clamp(softplus(dt[r*o.Heads+h] + bias[h]))
				g := float32(math.Exp(step * float64(decay[h])))
				value, y := row[h*o.HeadSize:][:o.HeadSize], out[r*inner+h*o.HeadSize:][:o.HeadSize]
				for j, c := range value {
					y[j] = v.StateStep(st[j*o.StateSize:][:o.StateSize], in, read, g, float32(step)*c) + skip[h]*c
				}
			}
		}
	}, nil
}

// bindSelectiveScan gives every worker some of the numbers of all rows.
func bindSelectiveScan(d *Device, n *graph.Node, a backend.Args) (body, error) {
	inner, size := n.In[0].Axis.Len(), n.In[2].Axis.Len()
	x, dt, in, read, out := floats(a.In[0]), floats(a.In[1]), floats(a.In[2]), floats(a.In[3]), floats(a.Out[0])
	decay, skip, state := decoded(a.Weights[0]), a.Weights[1].(vector), newStateOf(n, a)
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(inner, 1)
		for s := range b.Seqs() {
			all := state.of(b, s)
			if b.Past(s) == 0 {
				clear(all[from*size : to*size])
			}
			for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
				bs, cs := in[r*size:(r+1)*size], read[r*size:(r+1)*size]
				for i := from; i < to; i++ {
					h, rates := all[i*size:(i+1)*size], decay[i*size:(i+1)*size]
					v := x[r*inner+i]
					step := softplus(dt[r*inner+i])
					sum, by := float32(0), float32(step)*v
					for j := range h {
						h[j] = float32(math.Exp(step*float64(rates[j])))*h[j] + by*bs[j]
						sum += h[j] * cs[j]
					}
					out[r*inner+i] = sum + skip[i]*v
				}
			}
		}
	}, nil
}

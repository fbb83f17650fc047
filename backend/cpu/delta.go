package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// delta is a layer of the gated delta rule: where a head's values are, and how its decays, keys and queries are found.
type delta struct {
	heads, keys, values int
	v                   []float32 // rows of width numbers, of which a head's values are those from at·head on
	width, at, first    int
	beta                []float32 // [rows, heads], before the sigmoid
	state               stateOf
	// fill computes what vec.Ops.DeltaSteps wants of the tokens of rows from on, as many as there is room for in decays.
	fill func(h, from int, c, decays []float32)
}

// deltaTile is for how many tokens a worker computes decays, keys and queries before it goes on with a state: 16 of 128 numbers are 32 KB.
const deltaTile = 16

// deltaScratch holds a worker's coefficients, decays and rates of a tile.
func deltaScratch(keys int) int64 { return (4*deltaTile*int64(vec.DeltaRows*keys+2) + 63) / 64 * 64 }

func gatedDeltaScratch(n *graph.Node, _ backend.Limits) int64 {
	return deltaScratch(n.Op.(graph.GatedDelta).KeySize)
}

func kimiDeltaScratch(n *graph.Node, _ backend.Limits) int64 {
	return deltaScratch(n.Op.(graph.KimiDelta).Size)
}

// bind gives every worker some heads of some sequences.
func (l delta) bind(d *Device, a backend.Args) body {
	out, scratch, v := floats(a.Out[0]), floats(a.Scratch), d.vec
	each, row := len(scratch)/d.pool.N(), vec.DeltaRows*l.keys
	return func(w *worker, b *backend.Batch) {
		mine := scratch[w.id*each:][:deltaTile*(row+2)]
		c, decays, rates := mine[:deltaTile*row], mine[deltaTile*row:][:deltaTile], mine[deltaTile*(row+1):][:deltaTile]
		l.state.heads(w, b, l.heads, func(h int, state []float32, first, last int) {
			for r := first; r < last; r += deltaTile {
				n := min(deltaTile, last-r)
				l.fill(h, r, c, decays[:n])
				for t := range n {
					rates[t] = l.beta[(r+t)*l.heads+h]
				}
				v.Act(vec.Sigmoid, rates[:n], rates[:n])
				v.DeltaSteps(state, c, rates[:n], l.v[r*l.width+l.first+h*l.at:], out[(r*l.heads+h)*l.values:], l.keys, l.width, l.heads*l.values)
			}
		})
	}
}

// bindGatedDelta has one decay for a token and head.
func bindGatedDelta(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.GatedDelta), d.vec
	x, alpha := floats(a.In[0]), floats(a.In[1])
	decay, bias := a.Weights[0].(vector), a.Weights[1].(vector)
	width, keys, root := o.Width(), o.KeyHeads*o.KeySize, 1/float32(math.Sqrt(float64(o.KeySize)))
	l := delta{
		heads: o.ValueHeads, keys: o.KeySize, values: o.ValueSize, v: x, width: width, at: o.ValueSize, first: 2 * keys,
		beta: floats(a.In[2]), state: newStateOf(n, a),
	}
	l.fill = func(h, from int, c, decays []float32) {
		for t := range decays {
			decays[t] = alpha[(from+t)*o.ValueHeads+h] + bias[h]
		}
		v.Act(vec.Softplus, decays, decays)
		v.Exp(decays, decays, decay[h])
		at := o.KeyHead(h) * o.KeySize
		for t, g := range decays {
			row, to := x[(from+t)*width:], deltaRowsOf(c, t, o.KeySize)
			unit(v, to[3], row[at:at+o.KeySize], root)
			unit(v, to[2], row[keys+at:keys+at+o.KeySize], 1)
			for i := range to[1] {
				to[1][i] = g
			}
			v.Multiply(to[0], to[2], g)
		}
	}
	return l.bind(d, a), nil
}

// bindKimiDelta has a decay for each number of a key.
func bindKimiDelta(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.KimiDelta), d.vec
	query, key, alpha := floats(a.In[0]), floats(a.In[1]), floats(a.In[3])
	decay, bias := decoded(a.Weights[0]), a.Weights[1].(vector)
	width, root := o.Heads*o.Size, 1/float32(math.Sqrt(float64(o.Size)))
	l := delta{
		heads: o.Heads, keys: o.Size, values: o.Size, v: floats(a.In[2]), width: width, at: o.Size,
		beta: floats(a.In[4]), state: newStateOf(n, a),
	}
	l.fill = func(h, from int, c, decays []float32) {
		for t := range decays {
			at, to := (from+t)*width+h*o.Size, deltaRowsOf(c, t, o.Size)
			unit(v, to[3], query[at:at+o.Size], root)
			unit(v, to[2], key[at:at+o.Size], 1)
			v.Add(to[1], alpha[at:at+o.Size], bias[h*o.Size:])
			v.Act(vec.Softplus, to[1], to[1])
			v.Exp(to[1], to[1], decay[h])
			v.Scale(to[0], to[2], to[1], 1)
		}
	}
	return l.bind(d, a), nil
}

// deltaRowsOf are token t's rows of coefficients: decay · key, decay, key and query.
func deltaRowsOf(c []float32, t, keys int) (rows [vec.DeltaRows][]float32) {
	for i := range rows {
		rows[i] = c[(t*vec.DeltaRows+i)*keys:][:keys]
	}
	return rows
}

// unit is x divided by its length, times a number.
func unit(v vec.Ops, y, x []float32, by float32) {
	v.Multiply(y, x, by*float32(1/math.Sqrt(float64(v.Dot(x, x))+graph.L2Eps)))
}

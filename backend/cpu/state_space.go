package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

const (
	ssdTile = 64 // tokens whose steps a worker computes before it goes on with a state
	ssdRows = 16 // rows of a state that go through a tile together, since they stay in the first cache: 8 KB of 128 numbers each
)

// ssdScratch holds a worker's steps and decays of a tile.
func ssdScratch(*graph.Node, backend.Limits) int64 { return 4 * 2 * ssdTile }

// bindSSD gives every worker some heads of some sequences.
func bindSSD(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, v := n.Op.(graph.SSD), d.vec
	x, dt, out, scratch := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), floats(a.Scratch)
	decay, bias, skip, state := a.Weights[0].(vector), a.Weights[1].(vector), a.Weights[2].(vector), newStateOf(n, a)
	each, width, inner, groups := len(scratch)/d.pool.N(), o.Width(), o.Heads*o.HeadSize, o.Groups*o.StateSize
	return func(w *worker, b *backend.Batch) {
		steps, decays := scratch[w.id*each:][:ssdTile], scratch[w.id*each+ssdTile:][:ssdTile]
		state.heads(w, b, o.Heads, func(h int, st []float32, first, last int) {
			group := h / (o.Heads / o.Groups) * o.StateSize
			for from := first; from < last; from += ssdTile {
				tokens := min(ssdTile, last-from)
				for t := range tokens {
					steps[t] = dt[(from+t)*o.Heads+h] + bias[h]
				}
				v.Act(vec.Softplus, steps[:tokens], steps[:tokens])
				for t, step := range steps[:tokens] {
					steps[t] = float32(o.Clamp(float64(step)))
				}
				v.Exp(decays[:tokens], steps[:tokens], decay[h])
				for i := 0; i < o.HeadSize; i += ssdRows {
					rows := min(ssdRows, o.HeadSize-i)
					part, at := st[i*o.StateSize:(i+rows)*o.StateSize], h*o.HeadSize+i
					for t := range tokens {
						row, y := x[(from+t)*width:][:width], out[(from+t)*inner+at:][:rows]
						in, read := row[inner+group:][:o.StateSize], row[inner+groups+group:]
						v.StateSteps(part, row[at:at+rows], y, in, read, decays[t], steps[t], skip[h])
					}
				}
			}
		})
	}, nil
}

// selectiveScanScratch holds a worker's steps of its numbers of a row, and each times its number.
func selectiveScanScratch(n *graph.Node, _ backend.Limits) int64 {
	return (4*2*int64(n.In[0].Axis.Len()) + 63) / 64 * 64
}

// bindSelectiveScan gives every worker some of the numbers of all rows.
func bindSelectiveScan(d *Device, n *graph.Node, a backend.Args) (body, error) {
	inner, size, v := n.In[0].Axis.Len(), n.In[2].Axis.Len(), d.vec
	x, dt, in, read, out := floats(a.In[0]), floats(a.In[1]), floats(a.In[2]), floats(a.In[3]), floats(a.Out[0])
	decay, skip, state, scratch := decoded(a.Weights[0]), a.Weights[1].(vector), newStateOf(n, a), floats(a.Scratch)
	each := len(scratch) / d.pool.N()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(inner, 1)
		steps, by := scratch[w.id*each:][:to-from], scratch[w.id*each+inner:][:to-from]
		for s := range b.Seqs() {
			h := state.of(b, s)[from*size : to*size]
			if b.Past(s) == 0 {
				clear(h)
			}
			for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
				row, y := x[r*inner+from:][:to-from], out[r*inner+from:][:to-from]
				v.Act(vec.Softplus, steps, dt[r*inner+from:])
				v.Scale(by, steps, row, 1)
				v.ScanSteps(h, decay[from*size:], steps, by, y, in[r*size:(r+1)*size], read[r*size:])
				v.AddProduct(y, row, skip[from:to])
			}
		}
	}, nil
}

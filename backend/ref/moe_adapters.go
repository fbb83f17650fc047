package ref

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// expertAdapters adds to y, the product of row r with one of expert e's matrices, what the adapters of the row's sequence have for it. x is what was
// multiplied; nil: the node's rows before they were quantised.
func (d *Device) expertAdapters(n *graph.Node, a backend.Args) func(which, e, r int, x, y []float32) {
	if _, ok := n.Op.(graph.AdaptedMoE); !ok {
		return func(int, int, int, []float32, []float32) {}
	}
	places, rows := a.Weights[len(n.Weights)-graph.ExpertMatrices:], n.In[2]
	return func(which, e, r int, x, y []float32) {
		for _, u := range d.batch.Adapters {
			l := places[which].(slots)[u.Slot]
			if from, to := d.batch.AdapterRows(u, rows.Rows); l.Rank() == 0 || r < from || r >= to {
				continue
			}
			if x == nil {
				x = make([]float32, rows.Axis.Len())
				load(x, rows.Type, rowAt(rows, a.In[2], r))
			}
			first, second := l.Matrix(e)
			h := make([]float32, l.Rank())
			for j := range h {
				h[j] = float32(dot(row(first, j), x))
			}
			for o := range y {
				y[o] += u.Scale * l.Scale * float32(dot(row(second, o), h))
			}
		}
	}
}

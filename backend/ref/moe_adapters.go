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
	read, has := map[[2]int]bool{}, map[[3]int]bool{} // rows of adapters, and matrices of experts of slots, that have been counted
	return func(which, e, r int, x, y []float32) {
		for i, u := range d.batch.Adapters {
			l := places[which].(slots)[u.Slot]
			if from, to := d.batch.AdapterRows(u, rows.Rows); l.Rank() == 0 || r < from || r >= to {
				continue
			}
			if x == nil {
				x = make([]float32, rows.Axis.Len())
				load(x, rows.Type, rowAt(rows, a.In[2], r))
			}
			first, second := l.Matrix(e)
			if at := [2]int{i, r}; rows != n.In[0] && !read[at] {
				read[at] = true
				d.counted.ValueRead += rows.RowBytes()
			}
			if at := [3]int{int(u.Slot), which, e}; !has[at] {
				has[at] = true
				d.counted.WeightBytes += int64(len(first.Data) + len(second.Data))
			}
			d.flops(2 * l.Rank() * (len(x) + len(y)))
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

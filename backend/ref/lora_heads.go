package ref

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// loraHeads changes results of products by head in place.
func loraHeads(d *Device, n *graph.Node, a backend.Args) {
	x, y, w := n.In[0], n.Out[0], n.Weights[0]
	last := int32(-1)
	for _, u := range d.batch.Adapters {
		l := a.Weights[0].(slots)[u.Slot]
		if l.Rank() == 0 {
			continue
		}
		d.countAdapter(l, x.Rows, u.Slot != last)
		last = u.Slot
		from, to := d.batch.AdapterRows(u, x.Rows)
		for r := from; r < to; r++ {
			d.flops(2 * l.Rank() * x.Axis.Count * (w.In.Len() + w.Out.Len()))
			d.counted.ValueRead += x.RowBytes() + y.RowBytes()
			d.counted.ValueWrite += y.RowBytes()
			in, out := make([]float32, x.Axis.Len()), make([]float32, y.Axis.Len())
			load(in, x.Type, rowAt(x, a.In[0], r))
			load(out, y.Type, rowAt(y, a.Out[0], r))
			for head := range x.Axis.Count {
				first, second := l.Matrix(head)
				h := make([]float32, l.Rank())
				for j := range h {
					h[j] = float32(dot(row(first, j), in[head*x.Axis.Size:][:w.In.Len()]))
				}
				for o := range w.Out.Len() {
					out[head*y.Axis.Size+o] += u.Scale * l.Scale * float32(dot(row(second, o), h))
				}
			}
			store(rowAt(y, a.Out[0], r), y.Type, out)
		}
	}
}

package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// loraHeads is a bound node that changes results of products by head as adapters say. A worker computes all heads of its share of the rows.
type loraHeads struct {
	dev          *Device
	rows         graph.Rows
	x, y         []float32
	heads        int
	xSize, ySize int // numbers of a head
	length, outs int // of them, those that are multiplied and changed
	slots        slots
	rank         int         // largest
	buffer       [][]float32 // of each worker: h, and a decoded row
}

func bindLoRAHeads(d *Device, n *graph.Node, a backend.Args) (body, error) {
	w := n.Weights[0]
	l := &loraHeads{
		dev: d, rows: n.In[0].Rows, x: floats(a.In[0]), y: floats(a.Out[0]), heads: n.In[0].Axis.Count, xSize: n.In[0].Axis.Size, ySize: n.Out[0].Axis.Size,
		length: w.In.Len(), outs: w.Out.Len(), slots: a.Weights[0].(slots), rank: w.Slots.Rank,
	}
	for range d.pool.N() {
		l.buffer = append(l.buffer, make([]float32, l.rank+max(l.length, l.outs)))
	}
	return l.run, nil
}

func (l *loraHeads) run(w *worker, b *backend.Batch) {
	if len(b.Adapters) == 0 {
		return
	}
	rows := len(b.Tokens)
	if l.rows == graph.Logits {
		rows = len(b.LogitsIndices)
	}
	from, to := w.share(rows, 1)
	for _, u := range b.Adapters {
		a := l.slots[u.Slot]
		if a == nil || a.Rank() == 0 {
			continue
		}
		first, last := b.AdapterRows(u, l.rows)
		for r := max(from, first); r < min(to, last); r++ {
			for h := range l.heads {
				at := r*l.heads + h
				a.addStacked(l.dev.vec, h, u.Scale, l.x[at*l.xSize:][:l.length], l.y[at*l.ySize:][:l.outs], l.buffer[w.id])
			}
		}
	}
}

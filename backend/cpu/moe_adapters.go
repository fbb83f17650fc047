package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// moeAdapters is what adapters change of a block of experts. Beside the product of a pair, of a row and one of its experts, with a matrix is the adapter's for
// this expert:
//
//	x ─► h = A x, for each pair ─► y += Scale × B h
//
// A worker computes all of the rows that are its share; most have one adapter.
type moeAdapters struct {
	rows   graph.Rows
	x      []float32 // [rows][in], before they are quantised
	slots  [graph.ExpertMatrices]slots
	buffer [][]float32 // of each worker: h, and a decoded row
	rank   int         // largest
}

func newMoEAdapters(d *Device, n *graph.Node, a backend.Args) *moeAdapters {
	m := &moeAdapters{rows: n.In[2].Rows, x: floats(a.In[2])}
	first, widest := len(n.Weights)-graph.ExpertMatrices, 0
	for i := range m.slots {
		w := n.Weights[first+i]
		m.slots[i] = a.Weights[first+i].(slots)
		m.rank, widest = max(m.rank, w.Slots.Rank), max(widest, w.In.Len(), w.Out.Len())
	}
	for range d.pool.N() {
		m.buffer = append(m.buffer, make([]float32, m.rank+widest))
	}
	return m
}

// adaptFirst changes gates and ups of the worker's rows.
func (m *moe) adaptFirst(w *worker, b *backend.Batch, rows int) {
	from, to := w.share(rows, 1)
	m.adapt(w, b, graph.ExpertGate, from, to)
	m.adapt(w, b, graph.ExpertUp, from, to)
}

// adapt changes the results of one matrix of the experts of rows [from, to).
func (m *moe) adapt(w *worker, b *backend.Batch, which, from, to int) {
	s, x := &m.scratch, m.adapters
	for _, u := range b.Adapters {
		a := x.slots[which][u.Slot]
		if a == nil || a.Rank() == 0 {
			continue
		}
		first, last := b.AdapterRows(u, x.rows)
		for r := max(from, first); r < min(to, last); r++ {
			for k := r * m.op.TopK; k < (r+1)*m.op.TopK; k++ {
				e, pair := int(s.expert[k]), int(s.pair[k])
				if e < 0 {
					continue
				}
				switch which {
				case graph.ExpertGate:
					m.addProduct(w, a, e, u.Scale, x.x[r*m.in:(r+1)*m.in], s.gate[pair*m.ffn:(pair+1)*m.ffn])
				case graph.ExpertUp:
					m.addProduct(w, a, e, u.Scale, x.x[r*m.in:(r+1)*m.in], s.up[pair*m.ffn:(pair+1)*m.ffn])
				case graph.ExpertDown:
					m.addProduct(w, a, e, u.Scale, s.gate[pair*m.ffn:(pair+1)*m.ffn], s.down[pair*m.in:(pair+1)*m.in])
				}
			}
		}
	}
}

// addProduct adds an adapter's product for one expert and one row.
func (m *moe) addProduct(w *worker, a *adapter, e int, scale float32, x, y []float32) {
	a.addStacked(m.dev.vec, e, scale, x, y, m.adapters.buffer[w.id])
}

// addStacked adds the product of one matrix of a stack with a row. buffer has room for h, and behind it a decoded row.
func (a *adapter) addStacked(v vec.Ops, e int, scale float32, x, y, buffer []float32) {
	rank := a.Rank()
	h, buffer := buffer[:rank], buffer[rank:]
	for j := range h {
		if narrow := a.a.bf16(e*rank + j); narrow != nil {
			h[j] = scale * a.Scale * v.DotBF16(x, narrow)
		} else {
			h[j] = scale * a.Scale * v.Dot(x, a.a.row(e*rank+j, buffer))
		}
	}
	if a.panels != nil {
		v.AddPanels(y, a.panels[e*len(y)*rank:(e+1)*len(y)*rank], h)
		return
	}
	for j := range h {
		v.Axpby(y, a.b.row(e*rank+j, buffer), 1, h[j])
	}
}

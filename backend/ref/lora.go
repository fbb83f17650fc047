package ref

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// slots is a weight that adapters fill.
type slots []*graph.LowRank

// Bytes implements backend.Weight.
func (slots) Bytes() int64 { return 0 }

// SetAdapter implements backend.AdapterLoader.
func (d *Device) SetAdapter(w backend.Weight, slot int, l *graph.LowRank) error {
	s, ok := w.(slots)
	if !ok || slot < 0 || slot >= len(s) {
		return fmt.Errorf("ref: there is no slot %d for an adapter", slot)
	}
	s[slot] = l
	return nil
}

// AdaptersSet implements backend.AdapterLoader.
func (d *Device) AdaptersSet(done func(error)) { done(nil) }

// lora changes results of linears in place.
func lora(d *Device, n *graph.Node, a backend.Args) {
	for i := range n.Weights {
		var last int32 = -1
		for _, u := range d.batch.Adapters {
			l := a.Weights[i].(slots)[u.Slot]
			if l == nil {
				continue
			}
			d.countAdapter(l, n.In[0].Rows, u.Slot != last)
			last = u.Slot
			from, to := d.batch.AdapterRows(u, n.In[0].Rows)
			for r := from; r < to; r++ {
				x, y := make([]float32, n.In[0].Axis.Len()), make([]float32, n.Out[i].Axis.Len())
				load(x, n.In[0].Type, rowAt(n.In[0], a.In[0], r))
				load(y, n.Out[i].Type, rowAt(n.Out[i], a.Out[i], r))
				d.countLoRA(l, n, i)
				changed := adapted(l, x, y)
				for o := range y {
					y[o] += u.Scale * (changed[o] - y[o])
				}
				store(rowAt(n.Out[i], a.Out[i], r), n.Out[i].Type, y)
			}
		}
	}
}

// adapted is what an adapter makes of a row x of a linear with the result y.
func adapted(l *graph.LowRank, x, y []float32) []float32 {
	now := slices.Clone(y)
	if l.Columns != nil {
		for o := range now {
			now[o] *= l.Columns[o]
		}
	}
	if len(l.Rows.Data) > 0 {
		for i := range l.Rows.Rows {
			o := i
			if l.Indices != nil {
				o = int(l.Indices[i])
			}
			now[o] = float32(dot(row(l.Rows, i), x))
		}
	}
	if l.Rank() > 0 {
		h := make([]float32, l.Rank())
		for j := range h {
			h[j] = float32(dot(row(l.A, j), x))
		}
		for o := range now {
			now[o] += l.Scale * float32(dot(row(l.B, o), h))
		}
	}
	for o := range l.Bias {
		now[o] += l.Bias[o]
	}
	return now
}

// loraEmbed changes rows of embeddings in place.
func loraEmbed(d *Device, n *graph.Node, a backend.Args) {
	scale := float32(1)
	if s := n.Op.(graph.LoRAEmbed).Scale; s != 0 {
		scale = float32(s)
	}
	v := n.Out[0]
	for _, u := range d.batch.Adapters {
		l := a.Weights[0].(slots)[u.Slot]
		if l == nil {
			continue
		}
		from, to := d.batch.AdapterRows(u, graph.Tokens)
		for r := from; r < to; r++ {
			if slices.Contains(d.batch.EmbeddingRows, int32(r)) { // it is no token's
				continue
			}
			y, token := make([]float32, v.Axis.Len()), int(d.batch.Tokens[r])
			load(y, v.Type, rowAt(v, a.Out[0], r))
			now := slices.Clone(y)
			if i, ok := l.RowFor(token); ok {
				now = row(l.Rows, i)
				for j := range now {
					now[j] *= scale
				}
			}
			if l.Rank() > 0 {
				h := row(l.A, token)
				for j := range now {
					now[j] += scale * l.Scale * float32(dot(row(l.B, j), h))
				}
			}
			for j := range y {
				y[j] += u.Scale * (now[j] - y[j])
			}
			store(rowAt(v, a.Out[0], r), v.Type, y)
		}
	}
}

// row decodes a row of a tensor.
func row(t quant.Tensor, r int) []float32 {
	x := make([]float32, t.Cols)
	quant.Decode(t.Format, x, t.Row(r))
	return x
}

func dot(x, y []float32) (sum float64) {
	for i := range x {
		sum += float64(x[i]) * float64(y[i])
	}
	return sum
}

// countAdapter counts an adapter's matrices, and countLoRA a row that it changes. See graph.LoRA.Work for what is not counted.
func (d *Device) countAdapter(l *graph.LowRank, rows graph.Rows, first bool) {
	if first && rows != graph.Logits {
		d.counted.WeightBytes += int64(len(l.A.Data) + len(l.B.Data))
	}
}

func (d *Device) countLoRA(l *graph.LowRank, n *graph.Node, i int) {
	if n.In[0].Rows == graph.Logits {
		return
	}
	d.flops(2 * l.Rank() * (n.In[0].Axis.Len() + n.Out[i].Axis.Len()))
	if i == 0 {
		d.counted.ValueRead += n.In[0].RowBytes()
	}
	d.counted.ValueRead += n.Out[i].RowBytes()
	d.counted.ValueWrite += n.Out[i].RowBytes()
}

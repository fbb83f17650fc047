package cpu

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// lora is a bound node that changes results of matmuls of the same rows x as adapters say. Rows are grouped by adapter (SGMV; Chen et al.,
// Punica, arXiv:2310.18547), each with the rank that it has:
//
//	x ─► h = A x, for each row, matrix and rank ─► y += Scale × B h, by columns of y
//
// with a barrier between.
type lora struct {
	vec     vec.Ops
	rows    graph.Rows
	x       []float32
	in      int
	targets []loraTarget
	h       []float32 // [rows][targets][rank]
	rank    int       // largest
	buffer  []float32 // [workers][bufferLen]: a decoded row
	stride  int
}

// loraTarget is one of the results.
type loraTarget struct {
	y     []float32
	out   int
	slots slots
}

// loraSizes is the numbers of h and of a worker's buffer.
func loraSizes(n *graph.Node, lim backend.Limits) (h, buffer int) {
	rank := 0
	buffer = n.In[0].Axis.Len()
	for _, w := range n.Weights {
		rank, buffer = max(rank, w.Slots.Rank), max(buffer, w.Out.Len(), w.Slots.Rank)
	}
	return lim.Rows(n.In[0].Rows) * len(n.Weights) * rank, buffer
}

// loraScratch is what each worker has a part of.
func (d *Device) loraScratch(n *graph.Node, lim backend.Limits) int64 {
	h, buffer := loraSizes(n, lim)
	workers := d.pool.N()
	return 4 * int64((h+workers-1)/workers+buffer)
}

func bindLoRA(launch *launch, n *graph.Node, a backend.Args) error {
	h, buffer := loraSizes(n, a.Limits)
	scratch := floats(a.Scratch)
	l := &lora{vec: launch.dev.vec, rows: n.In[0].Rows, x: floats(a.In[0]), in: n.In[0].Axis.Len(), h: scratch[:h], buffer: scratch[h:], stride: buffer}
	for i, w := range n.Weights {
		l.rank = max(l.rank, w.Slots.Rank)
		l.targets = append(l.targets, loraTarget{floats(a.Out[i]), w.Out.Len(), a.Weights[i].(slots)})
	}
	launch.lora, launch.run = l, l.run
	return nil
}

func (l *lora) run(w *worker, b *backend.Batch) {
	if len(b.Adapters) == 0 {
		return
	}
	buffer := l.bufferOf(w)
	for nth, last := int32(0), int32(0); nth <= last; nth++ { // most sequences have one adapter
		for _, u := range b.Adapters {
			last = max(last, u.Nth)
		}
		if nth > 0 {
			w.sync()
		}
		l.shrink(w, b, nth, buffer)
		w.sync()
		for i := range l.targets {
			from, to := w.columns(l.targets[i].out)
			l.expand(b, nth, i, from, to, buffer)
		}
	}
}

// bufferOf is the worker's.
func (l *lora) bufferOf(w *worker) []float32 { return l.buffer[w.id*l.stride : (w.id+1)*l.stride] }

// bySlot calls f with the sequences of each slot.
func bySlot(b *backend.Batch, f func(slot int, uses []backend.SeqAdapter)) {
	for first := 0; first < len(b.Adapters); {
		end, slot := first+1, b.Adapters[first].Slot
		for end < len(b.Adapters) && b.Adapters[end].Slot == slot {
			end++
		}
		f(int(slot), b.Adapters[first:end])
		first = end
	}
}

// narrowRows is up to how many rows of an adapter each read its numbers in BF16; for more these are widened once.
const narrowRows = 4

// shrink makes the worker's part of h: of each adapter some of its ranks, for all its rows.
func (l *lora) shrink(w *worker, b *backend.Batch, nth int32, buffer []float32) {
	bySlot(b, func(slot int, uses []backend.SeqAdapter) {
		n := 0
		l.eachRow(b, uses, nth, func(backend.SeqAdapter, int) { n++ })
		for i, t := range l.targets {
			a := t.slots[slot]
			if a == nil {
				continue
			}
			from, to := w.share(a.Rank(), 1)
			for j := from; j < to; j++ {
				if narrow := a.a.bf16(j); narrow != nil && n <= narrowRows {
					l.eachRow(b, uses, nth, func(_ backend.SeqAdapter, r int) {
						l.hidden(r, i)[j] = a.Scale * l.vec.DotBF16(l.x[r*l.in:(r+1)*l.in], narrow)
					})
					continue
				}
				row := a.a.row(j, buffer)
				l.eachRow(b, uses, nth, func(_ backend.SeqAdapter, r int) {
					l.hidden(r, i)[j] = a.Scale * l.vec.Dot(l.x[r*l.in:(r+1)*l.in], row)
				})
			}
		}
	})
}

// eachRow calls f with the rows of sequences whose adapter is their nth.
func (l *lora) eachRow(b *backend.Batch, uses []backend.SeqAdapter, nth int32, f func(u backend.SeqAdapter, r int)) {
	for _, u := range uses {
		if u.Nth != nth {
			continue
		}
		first, last := b.AdapterRows(u, l.rows)
		for r := first; r < last; r++ {
			f(u, r)
		}
	}
}

// hidden is the row of h for a row of x and a target.
func (l *lora) hidden(row, target int) []float32 {
	at := (row*len(l.targets) + target) * l.rank
	return l.h[at : at+l.rank]
}

// expand changes columns [from, to) of a target.
func (l *lora) expand(b *backend.Batch, nth int32, target, from, to int, buffer []float32) {
	t := l.targets[target]
	if from >= to {
		return
	}
	bySlot(b, func(slot int, uses []backend.SeqAdapter) {
		a := t.slots[slot]
		if a == nil {
			return
		}
		each := func(f func(u backend.SeqAdapter, r int, y []float32)) {
			l.eachRow(b, uses, nth, func(u backend.SeqAdapter, r int) { f(u, r, t.y[r*t.out+from:r*t.out+to]) })
		}
		if a.Columns != nil {
			each(func(u backend.SeqAdapter, _ int, y []float32) {
				for o := range y {
					y[o] *= 1 + u.Scale*(a.Columns[from+o]-1)
				}
			})
		}
		if len(a.Rows.Data) > 0 {
			for i := range a.Rows.Rows {
				o := i
				if a.Indices != nil {
					o = int(a.Indices[i])
				}
				if o < from || o >= to {
					continue
				}
				row := buffer[:l.in]
				quant.Decode(a.Rows.Format, row, a.Rows.Row(i))
				each(func(u backend.SeqAdapter, r int, y []float32) {
					y[o-from] += u.Scale * (l.vec.Dot(l.x[r*l.in:(r+1)*l.in], row) - y[o-from])
				})
			}
		}
		if a.panels != nil {
			each(func(u backend.SeqAdapter, r int, y []float32) {
				h := l.hidden(r, target)[:a.Rank()]
				if u.Scale != 1 {
					h = buffer[:len(h)]
					l.vec.Multiply(h, l.hidden(r, target), u.Scale)
				}
				l.vec.AddPanels(y, a.panels[from*len(h):to*len(h)], h)
			})
		} else {
			for j := range a.Rank() {
				row := a.b.columns(j, from, to, buffer)
				each(func(u backend.SeqAdapter, r int, y []float32) { l.vec.Axpby(y, row, 1, u.Scale*l.hidden(r, target)[j]) })
			}
		}
		if a.Bias != nil {
			each(func(u backend.SeqAdapter, _ int, y []float32) { l.vec.Axpby(y, a.Bias[from:to], 1, u.Scale) })
		}
	})
}

// bindLoRAEmbed changes the embeddings of the worker's rows.
func bindLoRAEmbed(v vec.Ops, n *graph.Node, a backend.Args) body {
	out, width, places := floats(a.Out[0]), n.Out[0].Axis.Len(), a.Weights[0].(slots)
	scale := float32(1)
	if s := n.Op.(graph.LoRAEmbed).Scale; s != 0 {
		scale = float32(s)
	}
	rank := n.Weights[0].Slots.Rank
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Tokens), 1)
		var h, row []float32 // made only in steps with adapters of embeddings
		for _, u := range b.Adapters {
			a := places[u.Slot]
			if a == nil {
				continue
			}
			if h == nil {
				h, row = make([]float32, rank), make([]float32, width)
			}
			first, last := b.AdapterRows(u, graph.Tokens)
			for r := max(from, first); r < min(to, last); r++ {
				if slices.Contains(b.EmbeddingRows, int32(r)) { // it is no token's
					continue
				}
				y, token := out[r*width:(r+1)*width], int(b.Tokens[r])
				if i, ok := a.RowFor(token); ok {
					quant.Decode(a.Rows.Format, row, a.Rows.Row(i))
					v.Axpby(y, row, 1-u.Scale, u.Scale*scale)
				}
				if a.Rank() > 0 {
					for j, x := range a.a.row(token, h) {
						v.Axpby(y, a.b.columns(j, 0, width, row), 1, u.Scale*scale*a.Scale*x)
					}
				}
			}
		}
	}
}

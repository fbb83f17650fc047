package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// bindEmbed decodes the rows that the step's tokens (or positions) name.
func bindEmbed(n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.Embed)
	table, out := a.Weights[0].(matrix), floats(a.Out[0])
	return func(w *worker, b *backend.Batch) {
		index := b.Tokens
		if o.ByPosition {
			index = b.Positions
		}
		from, to := w.share(len(index), 1)
		for r := from; r < to; r++ {
			row := out[r*table.Cols : (r+1)*table.Cols]
			quant.Decode(table.Format, row, table.Row(int(index[r])))
			if o.Scale != 0 {
				for i := range row {
					row[i] *= float32(o.Scale)
				}
			}
		}
	}
}

// panel is how many weight rows are decoded at a time: few enough to stay in the second cache level with the inputs.
const panel = 32

// linearScratch holds one decoded panel.
func linearScratch(n *graph.Node, _ backend.Limits) int64 {
	return 4 * panel * int64(n.Weights[0].In.Len())
}

// bindLinear splits the weight's rows over the workers. Each decodes a panel of rows once and multiplies all inputs
// with it, four inputs at a time, so that a decoded number is used as often as possible while it is near.
func bindLinear(n *graph.Node, a backend.Args) body {
	weight := a.Weights[0].(matrix)
	var bias vector
	if len(a.Weights) == 2 {
		bias = a.Weights[1].(vector)
	}
	in, out, scratch := floats(a.In[0]), floats(a.Out[0]), floats(a.Scratch)
	width := n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		m, k := rows(n, b), weight.Cols
		if m == 0 {
			return
		}
		buffer := scratch[w.id*panel*k : (w.id+1)*panel*k]
		from, to := w.share(weight.Rows, panel)
		for ; from < to; from += panel {
			end := min(from+panel, to)
			for o := from; o < end; o++ {
				quant.Decode(weight.Format, buffer[(o-from)*k:(o-from+1)*k], weight.Row(o))
			}
			for r := 0; r < m; r += 4 {
				multiply(out, in, buffer, bias, r, min(4, m-r), from, end, k, width)
			}
		}
	}
}

// multiply computes outputs [from, end) of count rows from row r on.
func multiply(out, in, panelRows []float32, bias vector, r, count, from, end, k, width int) {
	for o := from; o < end; o++ {
		w := panelRows[(o-from)*k : (o-from+1)*k]
		var sums [4]float32
		if count == 4 {
			sums = dot4(w, in[r*k:], in[(r+1)*k:], in[(r+2)*k:], in[(r+3)*k:])
		} else {
			for i := range count {
				sums[i] = dot(w, in[(r+i)*k:])
			}
		}
		for i := range count {
			if bias != nil {
				sums[i] += bias[o]
			}
			out[(r+i)*width+o] = sums[i]
		}
	}
}

// bindPick copies the rows whose logits are wanted.
func bindPick(n *graph.Node, a backend.Args) body {
	in, out, width := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Picked), 1)
		for i := from; i < to; i++ {
			r := int(b.Picked[i])
			copy(out[i*width:(i+1)*width], in[r*width:(r+1)*width])
		}
	}
}

package ref

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// embed looks rows up; those that the step gives as embeddings are overwritten. Of several shards the first has them.
func embed(d *Device, n *graph.Node, a backend.Args) {
	o, table := n.Op.(graph.Embed), n.Weights[0].Out
	for r := range d.batch.Tokens {
		given := -1
		if o.Input {
			given = slices.Index(d.batch.EmbeddingRows, int32(r))
		}
		row := o.Index(d.batch.Tokens, d.batch.Positions, d.batch.Segments, r) - o.First
		elsewhere := table.Shards > 0 && (row < 0 || row >= table.Len())
		if given >= 0 {
			row, elsewhere = 0, o.First > 0
		}
		if elsewhere {
			d.write(n, a, 0, r, make([]float32, n.Out[0].Axis.Len()))
			continue
		}
		x := d.weightRow(a, 0, row)
		if o.Scale != 0 {
			for i := range x {
				x[i] = x[i] * float32(o.Scale)
			}
			d.flops(len(x))
		}
		if given >= 0 {
			copy(x, d.batch.Embeddings[given*len(x):(given+1)*len(x)])
		}
		d.write(n, a, 0, r, x)
	}
}

// linear reads every input row once and every weight row once, so it goes through the weight in the outer loop.
func linear(d *Device, n *graph.Node, a backend.Args) {
	rows := d.rows(n)
	in := make([][]float32, rows)
	out := make([][]float32, rows)
	for r := range in {
		in[r] = d.read(n, a, 0, r)
		if n.Op.(graph.Linear).ActType == graph.BF16 {
			roundBF16(in[r])
		}
		out[r] = make([]float32, n.Out[0].Axis.Len())
	}
	for o := range n.Out[0].Axis.Len() {
		w := d.weightRow(a, 0, o)
		for r, x := range in {
			var sum float64
			for i := range x {
				sum += float64(x[i]) * float64(w[i])
			}
			d.flops(2 * len(x))
			out[r][o] = float32(sum)
		}
	}
	if len(n.Weights) == 2 {
		bias := d.weightRow(a, 1, 0)
		for r := range out {
			for i := range bias {
				out[r][i] += bias[i]
			}
			d.flops(len(bias))
		}
	}
	for r := range out {
		d.write(n, a, 0, r, out[r])
	}
}

// roundBF16 rounds numbers as products of weights in BF16 may do with their inputs.
func roundBF16(x []float32) {
	for i, v := range x {
		x[i] = quant.BF16ToF32(quant.F32ToBF16(v))
	}
}

// selectLogitRows copies the rows whose logits are wanted.
func selectLogitRows(d *Device, n *graph.Node, a backend.Args) {
	for i, r := range d.batch.LogitsIndices {
		d.write(n, a, 0, i, d.read(n, a, 0, int(r)))
	}
}

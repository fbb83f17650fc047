package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// bindRMSNorm normalises whole rows or each of their groups; a worker takes whole rows.
func bindRMSNorm(v vec.Ops, n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.RMSNorm)
	in, out, weight, width := floats(a.In[0]), floats(a.Out[0]), a.Weights[0].(vector), n.Out[0].Axis.Len()
	size := width
	if o.PerGroup {
		size = n.Out[0].Axis.Size
	} else if o.Groups > 0 {
		size /= o.Groups
	}
	if o.Of > 0 { // shards of rows
		sums := floats(a.In[1])
		return eachRow(n, func(r int) {
			v.Scale(out[r*width:(r+1)*width], in[r*width:(r+1)*width], weight, inverseRoot(sums[r], o.Of, o.Eps))
		})
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for at := from * width; at < to*width; at += size {
			x := in[at : at+size]
			v.Scale(out[at:at+size], x, weight[at%len(weight):][:size], inverseRoot(v.Dot(x, x), size, o.Eps))
		}
	}
}

// inverseRoot is 1 / √(squares / n + eps).
func inverseRoot(squares float32, n int, eps float64) float32 {
	return float32(1 / math.Sqrt(float64(squares)/float64(n)+eps))
}

// bindAddNorm adds two values and normalises the sum while the row is in the L1 cache.
func bindAddNorm(v vec.Ops, n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.AddNorm)
	x, y, sum, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), floats(a.Out[1])
	weight, width := a.Weights[0].(vector), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for at := from * width; at < to*width; at += width {
			row := sum[at : at+width]
			squares := v.AddSquares(row, x[at:at+width], y[at:at+width])
			v.Scale(out[at:at+width], row, weight, inverseRoot(squares, width, o.Eps))
		}
	}
}

// bindLayerNorm centres and normalises rows.
func bindLayerNorm(v vec.Ops, n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.LayerNorm)
	in, out, weight, width := floats(a.In[0]), floats(a.Out[0]), a.Weights[0].(vector), n.Out[0].Axis.Len()
	bias := make(vector, width)
	if len(a.Weights) == 2 {
		bias = a.Weights[1].(vector)
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			y := out[r*width : (r+1)*width]
			squares := v.Center(y, in[r*width:(r+1)*width])
			v.Affine(y, weight, bias, inverseRoot(squares, width, o.Eps))
		}
	}
}

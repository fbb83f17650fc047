package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// bindRMSNorm normalises whole rows or each of their groups; a worker takes whole rows.
func bindRMSNorm(n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.RMSNorm)
	in, out, weight, width := floats(a.In[0]), floats(a.Out[0]), a.Weights[0].(vector), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b), 1)
		for at := from * width; at < to*width; at += len(weight) {
			normalise(out[at:at+len(weight)], in[at:at+len(weight)], weight, o.Eps)
		}
	}
}

// normalise is y = x / rms(x) × weight.
func normalise(y, x []float32, weight vector, eps float64) {
	scale := float32(1 / math.Sqrt(float64(dot(x, x))/float64(len(x))+eps))
	for i := range x {
		y[i] = x[i] * scale * weight[i]
	}
}

// bindAddNorm adds two values and normalises the sum while the row is in the first cache level.
func bindAddNorm(n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.AddNorm)
	x, y, sum, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), floats(a.Out[1])
	weight, width := a.Weights[0].(vector), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b), 1)
		for at := from * width; at < to*width; at += width {
			row := sum[at : at+width]
			for i := range row {
				row[i] = x[at+i] + y[at+i]
			}
			normalise(out[at:at+width], row, weight, o.Eps)
		}
	}
}

// bindLayerNorm centres and normalises rows.
func bindLayerNorm(n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.LayerNorm)
	in, out, weight, width := floats(a.In[0]), floats(a.Out[0]), a.Weights[0].(vector), n.Out[0].Axis.Len()
	bias := make(vector, width)
	if len(a.Weights) == 2 {
		bias = a.Weights[1].(vector)
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b), 1)
		for r := from; r < to; r++ {
			x, y := in[r*width:(r+1)*width], out[r*width:(r+1)*width]
			var sum float64
			for _, v := range x {
				sum += float64(v)
			}
			mean := float32(sum / float64(width))
			for i, v := range x {
				y[i] = v - mean
			}
			scale := float32(1 / math.Sqrt(float64(dot(y, y))/float64(width)+o.Eps))
			for i := range y {
				y[i] = y[i]*scale*weight[i] + bias[i]
			}
		}
	}
}

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
			x, y := in[at:at+len(weight)], out[at:at+len(weight)]
			scale := float32(1 / math.Sqrt(float64(dot(x, x))/float64(len(x))+o.Eps))
			for i := range x {
				y[i] = x[i] * scale * weight[i]
			}
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

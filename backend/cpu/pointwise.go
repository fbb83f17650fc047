package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// grain is the least run of numbers worth giving to another worker: two cache lines would ping-pong below it.
const grain = 256

// bindAct applies a function to every number.
func bindAct(n *graph.Node, a backend.Args) body {
	in, out, width, fn := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len(), n.Op.(graph.Act).Fn
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b)*width, grain)
		for i := from; i < to; i++ {
			out[i] = apply(fn, in[i])
		}
	}
}

// bindActMul is fn(gate) × up.
func bindActMul(n *graph.Node, a backend.Args) body {
	gate, up, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	width, fn := n.Out[0].Axis.Len(), n.Op.(graph.ActMul).Fn
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b)*width, grain)
		for i := from; i < to; i++ {
			out[i] = apply(fn, gate[i]) * up[i]
		}
	}
}

// apply is one of the pointwise functions.
func apply(fn graph.Fn, v float32) float32 {
	x := float64(v)
	switch fn {
	case graph.Silu:
		return float32(x / (1 + math.Exp(-x)))
	case graph.GeluTanh:
		return float32(0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))))
	case graph.GeluErf:
		return float32(0.5 * x * (1 + math.Erf(x/math.Sqrt2)))
	default:
		return max(v, 0)
	}
}

// bindAdd sums two values.
func bindAdd(n *graph.Node, a backend.Args) body {
	x, y, out, width := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b)*width, grain)
		for i := from; i < to; i++ {
			out[i] = x[i] + y[i]
		}
	}
}

// bindSoftcap is cap × tanh(x / cap).
func bindSoftcap(n *graph.Node, a backend.Args) body {
	in, out, width, limit := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len(), n.Op.(graph.Softcap).Cap
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(rows(n, b)*width, grain)
		for i := from; i < to; i++ {
			out[i] = float32(limit * math.Tanh(float64(in[i])/limit))
		}
	}
}

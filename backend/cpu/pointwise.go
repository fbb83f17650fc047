package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// functions are the graph's pointwise functions as package vec calls them.
var functions = map[graph.Fn]vec.Fn{
	graph.Silu: vec.Silu, graph.GeluTanh: vec.GeluTanh, graph.GeluErf: vec.GeluErf, graph.Relu: vec.Relu,
	graph.Relu2: vec.Relu2, graph.Sigmoid: vec.Sigmoid, graph.Identity: vec.Identity,
}

// columns lets every worker compute its columns of all rows: those that it has computed itself if a matmul came before.
func columns(n *graph.Node, compute func(from, to int)) body {
	width := n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.columns(width)
		first, last := w.rowBlock(0, rows(n, b))
		for r := first; r < last && from < to; r++ {
			compute(r*width+from, r*width+to)
		}
	}
}

// bindAct applies a function to every number.
func bindAct(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, fn := floats(a.In[0]), floats(a.Out[0]), functions[n.Op.(graph.Act).Fn]
	return columns(n, func(from, to int) { v.Act(fn, out[from:to], in[from:to]) })
}

// bindActMul is fn(gate) × up.
func bindActMul(v vec.Ops, n *graph.Node, a backend.Args) body {
	gate, up, out, fn := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), functions[n.Op.(graph.ActMul).Fn]
	return columns(n, func(from, to int) { v.ActMul(fn, out[from:to], gate[from:to], up[from:to]) })
}

// bindAdd sums two values.
func bindAdd(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, y, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	return columns(n, func(from, to int) { v.Add(out[from:to], x[from:to], y[from:to]) })
}

// bindSoftcap is cap × tanh(x / cap).
func bindSoftcap(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, limit := floats(a.In[0]), floats(a.Out[0]), n.Op.(graph.Softcap).Cap
	return columns(n, func(from, to int) { v.Softcap(out[from:to], in[from:to], float32(1/limit), float32(limit)) })
}

// bindScale multiplies rows by a factor each, a worker its columns of all rows.
func bindScale(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, o, width := floats(a.In[0]), floats(a.Out[0]), n.Op.(graph.Scale), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.columns(width)
		first, last := w.rowBlock(0, rows(n, b))
		for r := first; r < last && from < to; r++ {
			by := o.By
			if o.Growth.Every != 0 {
				by *= o.Growth.At(int(b.Positions[r]))
			}
			v.Multiply(out[r*width+from:r*width+to], in[r*width+from:r*width+to], float32(by))
		}
	}
}

// bindXIELU applies the function number by number: the products around it take thousands of times as long.
func bindXIELU(_ vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, o := floats(a.In[0]), floats(a.Out[0]), n.Op.(graph.XIELU)
	positive, negative, beta := float32(o.Positive), float32(o.Negative), float32(o.Beta)
	return columns(n, func(from, to int) {
		for i, x := range in[from:to] {
			y := positive * x * x
			if x <= 0 {
				y = negative * float32(math.Expm1(float64(min(x, float32(o.Eps))))-float64(x))
			}
			out[from+i] = y + beta*x
		}
	})
}

package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// grain is the least run of numbers worth giving to another worker: two cache lines would ping-pong below it.
const grain = 256

// functions are the graph's pointwise functions as package vec calls them.
var functions = map[graph.Fn]vec.Fn{
	graph.Silu: vec.Silu, graph.GeluTanh: vec.GeluTanh, graph.GeluErf: vec.GeluErf, graph.Relu: vec.Relu,
}

// spans gives every worker its run of numbers, rows or parts of them.
func spans(n *graph.Node, compute func(from, to int)) body {
	width := n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		if from, to := w.share(rows(n, b)*width, grain); from < to {
			compute(from, to)
		}
	}
}

// bindAct applies a function to every number.
func bindAct(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, fn := floats(a.In[0]), floats(a.Out[0]), functions[n.Op.(graph.Act).Fn]
	return spans(n, func(from, to int) { v.Act(fn, out[from:to], in[from:to]) })
}

// bindActMul is fn(gate) × up.
func bindActMul(v vec.Ops, n *graph.Node, a backend.Args) body {
	gate, up, out, fn := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), functions[n.Op.(graph.ActMul).Fn]
	return spans(n, func(from, to int) { v.ActMul(fn, out[from:to], gate[from:to], up[from:to]) })
}

// bindAdd sums two values.
func bindAdd(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, y, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	return spans(n, func(from, to int) { v.Add(out[from:to], x[from:to], y[from:to]) })
}

// bindSoftcap is cap × tanh(x / cap).
func bindSoftcap(v vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, limit := floats(a.In[0]), floats(a.Out[0]), n.Op.(graph.Softcap).Cap
	return spans(n, func(from, to int) { v.Softcap(out[from:to], in[from:to], float32(1/limit), float32(limit)) })
}

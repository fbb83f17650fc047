package quantize

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// partOf is what a graph computes of want from values that are known, as a graph of its own: it receives known values and sends the wanted ones,
// from and to stages that are their IDs. format is the number format that a weight is in now.
func partOf(g *graph.Graph, known, want []*graph.Value, format func(w *graph.Weight) quant.Format) (*graph.Graph, error) {
	given, need := map[*graph.Value]bool{}, map[*graph.Node]bool{}
	for _, v := range known {
		given[v] = true
	}
	var received []*graph.Value
	taken := map[*graph.Value]bool{}
	var walk func(v *graph.Value)
	walk = func(v *graph.Value) {
		switch {
		case given[v]:
			if !taken[v] {
				taken[v] = true
				received = append(received, v)
			}
		case v.From != nil && !need[v.From]:
			need[v.From] = true
			for _, in := range v.From.In {
				walk(in)
			}
		}
	}
	for _, v := range want {
		walk(v)
	}
	used := map[*graph.Cache]bool{}
	var last *graph.Node
	for _, n := range g.Nodes {
		if !need[n] {
			continue
		}
		last = n
		for _, v := range append(append([]*graph.Value{}, n.In...), n.Out...) {
			if v.Cache != nil {
				used[v.Cache] = true
			}
		}
	}
	first := true
	send := func(r *graph.Rewriter) {
		for _, v := range want {
			out := r.Add("", v.Name+".sent", graph.Send{To: v.ID}, r.Of([]*graph.Value{v}), nil)
			r.SetOutput(out[0])
		}
	}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if first {
			first = false
			replaceCaches(r, g, used)
			for _, v := range received {
				recv := graph.Recv{From: v.ID, Rows: v.Rows, Axis: v.Axis, Type: v.Type}
				r.Replace([]*graph.Value{v}, r.Add("", v.Name, recv, nil, nil))
			}
			if last == nil { // all that is wanted is known
				send(r)
			}
		}
		if !need[n] {
			return true
		}
		weights := make([]*graph.Weight, len(n.Weights))
		for i, w := range n.Weights {
			weights[i] = w
			if f := format(w); f != w.Format {
				weights[i] = r.Requantised(w, f)
			}
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, narrowed(n.Op, weights), r.Of(n.In), weights))
		if n == last {
			send(r)
		}
		return true
	})
}

// narrowed is an op whose inputs may be rounded to bf16, as upstream has them, where it multiplies them with matrices in BF16.
func narrowed(op graph.Op, weights []*graph.Weight) graph.Op {
	if slices.ContainsFunc(weights, func(w *graph.Weight) bool { return w.Format != quant.BF16 && w.Out.Len() > 1 }) {
		return op
	}
	switch o := op.(type) {
	case graph.Linear:
		o.ActType = graph.BF16
		return o
	case graph.MoE:
		o.ActType = graph.BF16
		return o
	}
	return op
}

// replaceCaches leaves out the caches that a part does not use, and numbers the groups of the others anew.
func replaceCaches(r *graph.Rewriter, g *graph.Graph, used map[*graph.Cache]bool) {
	groups := map[int]int{}
	for _, c := range g.Caches {
		if !used[c] {
			r.ReplaceCache(c, nil)
			continue
		}
		if _, ok := groups[c.Group]; !ok {
			groups[c.Group] = len(groups)
		}
		now := *c
		now.Group = groups[c.Group]
		r.ReplaceCache(c, &now)
	}
}

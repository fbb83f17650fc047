package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// plan is a graph while its launches are made: the program's own, or that of steps without adapters. Both have the same weights, caches and
// arena.
type plan struct {
	graph   *graph.Graph
	weights map[*graph.Weight]placed
	kernels []backend.Kernel // of each node
	scratch []int64          // bytes that they need

	pieces   []span           // of the arena, for scratch
	buffers  []backend.Buffer // likewise
	launches []backend.Launch
	names    []string // of kernels
}

// plan chooses the kernels of a graph.
func (p *Program) plan(g *graph.Graph, weights map[*graph.Weight]placed) (*plan, error) {
	l := &plan{graph: g, weights: weights, kernels: make([]backend.Kernel, len(g.Nodes)), scratch: make([]int64, len(g.Nodes))}
	for i, n := range g.Nodes {
		if isCollective(n.Op) {
			continue
		}
		candidates := p.dev.Kernels(n)
		if len(candidates) == 0 {
			return nil, p.refusal(n)
		}
		l.kernels[i] = candidates[0]
		l.scratch[i] = l.kernels[i].Scratch(n, p.limits)
	}
	return l, nil
}

// planPlain is the plan of the graph of steps without adapters; nil where it does no more in one launch than the program's graph without its
// nodes for adapters. Its weights are those of the program's graph.
func (p *Program) planPlain(g *graph.Graph, weights map[*graph.Weight]placed) (*plan, error) {
	g, err := p.unfuse(g)
	if err != nil {
		return nil, err
	}
	nodes := 0
	for _, n := range p.Graph.Nodes {
		if !graph.IsAdapter(n) {
			nodes++
		}
	}
	if len(g.Nodes) >= nodes {
		return nil, nil
	}
	own, err := shared(g, weights)
	if err != nil {
		return nil, fmt.Errorf("compile: steps without adapters: %w", err)
	}
	return p.plan(g, own)
}

// shared is the weights of a graph, which are another's of the same names.
func shared(g *graph.Graph, weights map[*graph.Weight]placed) (map[*graph.Weight]placed, error) {
	byName := map[string]*graph.Weight{}
	for w := range weights {
		byName[w.Name] = w
	}
	own := map[*graph.Weight]placed{}
	for _, w := range g.Weights {
		same := byName[w.Name]
		if same == nil || same.Format != w.Format || same.Out.Len() != w.Out.Len() || same.In.Len() != w.In.Len() {
			return nil, fmt.Errorf("weight %s is another one in graph %s", w.Name, g.Name)
		}
		own[w] = weights[same]
	}
	return own, nil
}

// layoutOf is the arena of a plan. With that of another before it the results lie where they lie there, and it is of both.
func layoutOf(l *plan, before *layout, lim backend.Limits) *layout {
	var fixed map[*graph.Value]span
	if before != nil {
		fixed = before.resultsAs(l.graph)
	}
	a := arrange(l.graph, lim, l.scratch, fixed)
	l.pieces = a.scratch
	a.results = results(l.graph)
	if before != nil {
		a.size = max(a.size, before.size)
		for v, at := range before.values {
			a.values[v] = at
		}
	}
	return &a
}

// bindAll makes the launches of a plan.
func (p *Program) bindAll(l *plan, arena backend.Buffer, files Tensors) error {
	n := len(l.graph.Nodes)
	l.launches, l.names, l.buffers = make([]backend.Launch, n), make([]string, n), make([]backend.Buffer, n)
	for _, i := range l.heaviestFirst() {
		n := l.graph.Nodes[i]
		if isCollective(n.Op) {
			var err error
			if l.launches[i], l.names[i], err = p.collective(n, l.weights); err != nil {
				return err
			}
			continue
		}
		l.buffers[i] = arena.Slice(l.pieces[i].off, l.pieces[i].size)
		var err error
		if l.launches[i], err = p.launch(n, l.kernels[i], l.buffers[i], l.weights); err != nil {
			return err
		}
		l.names[i] = l.kernels[i].Name()
		for _, w := range n.Weights { // the mapping of one that the kernel has its own copy of
			l.weights[w].release(files)
		}
	}
	return nil
}

// heaviestFirst is the nodes in the order in which to bind them. While a kernel brings a weight into its own layout both are
// in memory; doing the largest first keeps the most that is ever needed near what stays. Those without weights come before
// all: what a device makes ready for them beside the caller is then made while weights are copied.
func (l *plan) heaviestFirst() []int {
	weight := make([]int64, len(l.graph.Nodes))
	order := make([]int, len(l.graph.Nodes))
	for i, n := range l.graph.Nodes {
		order[i] = i
		for _, w := range n.Weights {
			weight[i] += w.Bytes()
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if weight[i] == 0 || weight[j] == 0 {
			return cmp.Compare(weight[i], weight[j])
		}
		return cmp.Compare(weight[j], weight[i])
	})
	return order
}

// launch binds a node to a kernel.
func (p *Program) launch(n *graph.Node, k backend.Kernel, scratch backend.Buffer, weights map[*graph.Weight]placed) (backend.Launch, error) {
	a := backend.Args{Limits: p.limits, Scratch: scratch}
	for _, v := range n.In {
		a.In = append(a.In, p.buffer(v))
	}
	for _, v := range n.Out {
		a.Out = append(a.Out, p.buffer(v))
	}
	for _, w := range n.Weights {
		a.Weights = append(a.Weights, weights[w].Weight)
	}
	l, err := k.Bind(n, a)
	if err != nil {
		return nil, fmt.Errorf("compile: kernel %s for node %s: %w", k.Name(), n, err)
	}
	return l, nil
}

package pass

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// Kernels is what a device says of the nodes that fusions make. Its answers depend on the node alone: its op, shapes and formats.
type Kernels interface {
	// Has reports whether there is a kernel for a node.
	Has(n *graph.Node) bool
	// NormRows is up to how many rows a node need not have, or make, a norm: a Linear or Fused op of Linears, its input, which it
	// computes itself from the rows that are normalised; a LinearAddNorm or MoEAddNorm, its second result. 0: it needs it.
	NormRows(n *graph.Node) int
}

// row is one row of the table of fusions.
type row struct {
	makes string                   // the names of the ops
	of    string                   // what they combine
	find  func(m *matcher) []match // in one graph; matches do not overlap
	every bool                     // all devices compute it, or it is as fast taken apart again
}

// fusions is the table: all that is ever computed as one node, in the order in which it is looked for. It is closed: a row needs an op
// with Unfused and a kernel that is faster. What a row finds is decided on producers and readers, wherever the nodes are in the list.
var fusions = []row{
	{"AddNorm", "Add, RMSNorm of the sum", findAddNorm, true},
	{"NormQuantize", "RMSNorm or AddNorm, Quantize of the norm that nothing else reads", findNormQuantize, false},
	{"GatedNorm", "RMSNorm of each head, ActMul of a gate and it", findGatedNorm, false},
	{"AddNormRouter", "AddNorm, Linear of the norm that scores experts", findAddNormRouter, false},
	{"MoEAddNorm", "MoE, AddNorm of what it makes", findMoEAddNorm, false},
	{"AllReduceAddNorm", "AllReduce, AddNorm of the sum that nothing else reads", findAllReduceAddNorm, false},
	{"HeadNormAttention", "RMSNorm of each head of queries and of keys, RoPE, KVWrite, Attention", findHeadNormAttention, false},
	{"RoPEAttention", "RoPE of queries and of keys, KVWrite, Attention", findRoPEAttention, false},
	{"RoPEKVWrite", "RoPE of queries and of keys, KVWrite", findRoPEKVWrite, false},
	{"LatentAttention", "HeadLinear of queries, Attention to a latent cache, HeadLinear of what it makes", findLatentAttention, false},
	{"AdaptedLinear", "1 to 3 Linears of the same rows, LoRA of their results; of a gate and an up matrix ActMul too", findAdaptedLinear, false},
	{"OutlierLinear", "1 to 3 Linears of the same rows with the AddOutliers behind each; of a gate and an up matrix ActMul too", findOutlierLinear, false},
	{"GatedLinear", "Linear gate, Linear up of the same rows, ActMul", findGatedLinear, false},
	{"LinearGroup", "2 to 4 Linears of the same rows", findLinearGroup, false},
	{"DeferredNorm", "a norm that products compute in steps of few rows: those behind it (NormLinear) and the one before (LinearAddNorm)", findDeferredNorms, false},
}

// Fuse makes one node of nodes that a device computes as one: the rows of the table that it has kernels for, or, without a device,
// those that are the same for every device.
func Fuse(g *graph.Graph, o Options) (*graph.Graph, error) {
	for _, r := range fusions {
		if o.Kernels == nil && !r.every {
			continue
		}
		found := r.find(newMatcher(g, o))
		if len(found) == 0 {
			continue
		}
		var err error
		if g, err = replace(g, found); err != nil {
			return nil, fmt.Errorf("%s: %w", r.makes, err)
		}
	}
	return g, nil
}

// Fusions is the table as text: a line for each row, with what it makes of what.
func Fusions() string {
	var s strings.Builder
	for _, r := range fusions {
		fmt.Fprintf(&s, "  %-18s %s\n", r.makes, r.of)
	}
	return s.String()
}

// match is nodes that one node is to stand for.
type match struct {
	nodes []*graph.Node // in the graph's order
	by    *graph.Node   // reads and makes values of the old graph
}

// matcher is a graph with what rows ask of it.
type matcher struct {
	g       *graph.Graph
	device  Kernels
	readers map[*graph.Value][]*graph.Node // of each value, in order; a node that reads it twice is there twice
	place   map[*graph.Node]int
	taken   map[*graph.Node]bool // by a match of this row
}

func newMatcher(g *graph.Graph, o Options) *matcher {
	m := &matcher{g: g, device: o.Kernels, readers: map[*graph.Value][]*graph.Node{}, place: map[*graph.Node]int{}, taken: map[*graph.Node]bool{}}
	for i, n := range g.Nodes {
		m.place[n] = i
		for _, v := range n.In {
			m.readers[v] = append(m.readers[v], n)
		}
	}
	return m
}

// only is the one node that reads a value, if there is one and nothing outside the graph does.
func (m *matcher) only(v *graph.Value) *graph.Node {
	if r := m.readers[v]; len(r) == 1 && v != m.g.Output && v != m.g.Hidden && !slices.Contains(m.g.Kept, v) {
		return r[0]
	}
	return nil
}

// fused is the match of some nodes as one Fused op that makes outs, if the device has a kernel for it, nodes are free, and none
// outside reads of one what another needs.
func (m *matcher) fused(kind graph.Kind, nodes []*graph.Node, outs ...*graph.Value) (match, bool) {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b *graph.Node) int { return m.place[a] - m.place[b] })
	if slices.ContainsFunc(nodes, func(n *graph.Node) bool { return m.taken[n] }) || !m.convex(nodes) {
		return match{}, false
	}
	op, in, weights := graph.NewFused(kind, nodes, outs)
	by := &graph.Node{Op: op, In: in, Weights: weights, Out: outs, At: nodes[0].At}
	if !m.device.Has(by) {
		return match{}, false
	}
	for _, n := range nodes {
		m.taken[n] = true
	}
	return match{nodes, by}, true
}

// convex reports whether no node outside some needs what one of them makes and makes what another needs.
func (m *matcher) convex(nodes []*graph.Node) bool {
	after := map[*graph.Value]bool{} // made from what one of the nodes makes
	inside := map[*graph.Value]bool{}
	for _, n := range m.g.Nodes[m.place[nodes[0]] : m.place[nodes[len(nodes)-1]]+1] {
		member := slices.Contains(nodes, n)
		depends := false
		for _, v := range n.In {
			if member && after[v] && !inside[v] {
				return false
			}
			depends = depends || after[v]
		}
		for _, v := range n.Out {
			after[v], inside[v] = member || depends, member
		}
	}
	return true
}

// replace makes the graph with a node for each match. It stands where the first of its nodes stood; what it reads and did not lie before
// that comes before it.
func replace(g *graph.Graph, found []match) (*graph.Graph, error) {
	by := map[*graph.Node]*match{}
	for i := range found {
		for _, n := range found[i].nodes {
			by[n] = &found[i]
		}
	}
	ordered := *g
	ordered.Nodes = inOrder(g.Nodes, by)
	return graph.Rewrite(&ordered, func(r *graph.Rewriter, n *graph.Node) bool {
		m := by[n]
		if m == nil {
			return false
		}
		if n == m.nodes[0] {
			r.Replace(m.by.Out, r.Add(m.by.At, m.by.Out[0].Name, m.by.Op, r.Of(m.by.In), m.by.Weights))
		}
		return true
	})
}

// inOrder is nodes in an order in which they can run and those of a match are next to one another.
func inOrder(nodes []*graph.Node, by map[*graph.Node]*match) []*graph.Node {
	var all []*graph.Node
	begun := map[*graph.Node]bool{}
	var add func(n *graph.Node)
	add = func(n *graph.Node) {
		if begun[n] {
			return
		}
		together := []*graph.Node{n}
		if m := by[n]; m != nil {
			together = m.nodes
		}
		for _, n := range together {
			begun[n] = true
		}
		for _, n := range together {
			for _, v := range n.In {
				if v.From != nil {
					add(v.From)
				}
			}
		}
		all = append(all, together...)
	}
	for _, n := range nodes {
		add(n)
	}
	return all
}

package pass

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Adapters is how many adapters are resident at once, and the largest rank of their products.
type Adapters struct{ Slots, Rank int }

// LoRA puts, behind the Linears of the same rows and behind lookups of token ids, a node that changes their results as adapters say (see
// graph.LoRA). Without slots the graph stays as it is.
func LoRA(g *graph.Graph, o Options) (*graph.Graph, error) {
	if o.Adapters.Slots == 0 {
		return g, nil
	}
	slots := func(r *graph.Rewriter, n *graph.Node, table bool) *graph.Weight {
		w, tensor := n.Weights[0], n.Weights[0].Tensor
		if !table && tensor == embedding { // a tied head is a module of its own
			tensor = head
		}
		s := graph.Slots{Of: w, Count: o.Adapters.Slots, Rank: o.Adapters.Rank, Table: table}
		if len(n.Weights) > 1 {
			s.Bias = n.Weights[1]
		}
		return r.Slots(n.Out[0].Name+".lora", tensor, s)
	}
	last := sameRows(g)
	type group struct {
		in, out []*graph.Value // of LoRA in the new graph; results of Linears in the old one
		weights []*graph.Weight
	}
	open := group{}
	return graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		if e, ok := n.Op.(graph.Embed); ok && !e.ByPosition && !e.BySegment && n.Weights[0].Out.Shards == 0 { // adapters do not change divided tables
			y := r.Add(n.At, n.Out[0].Name+".base", n.Op, nil, n.Weights)
			r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, graph.LoRAEmbed{Scale: e.Scale}, y, []*graph.Weight{slots(r, n, true)}))
			return true
		}
		if moe, ok := n.Op.(graph.MoE); ok {
			return adaptExperts(r, n, moe, o)
		}
		if _, ok := n.Op.(graph.HeadLinear); ok {
			return adaptHeads(r, n, o)
		}
		if _, ok := n.Op.(graph.Linear); !ok {
			return false
		}
		in := r.Of(n.In)
		if open.in == nil {
			open.in = in
		}
		open.in = append(open.in, r.Add(n.At, n.Out[0].Name+".base", n.Op, in, n.Weights)...)
		open.out = append(open.out, n.Out...)
		open.weights = append(open.weights, slots(r, n, false))
		if last[n] {
			r.Replace(open.out, r.Add(n.At, n.Out[0].Name, graph.LoRA{}, open.in, open.weights))
			open = group{}
		}
		return true
	})
}

// adaptExperts has adapters change the experts of a block, where the device computes that and has all of it.
func adaptExperts(r *graph.Rewriter, n *graph.Node, moe graph.MoE, o Options) bool {
	gate := n.Weights[graph.ExpertGate]
	if o.Kernels == nil || moe.Held > 0 || gate.Out.Shards > 0 || gate == n.Weights[graph.ExpertUp] {
		return false
	}
	adapted := *n
	adapted.Op, adapted.In, adapted.Weights = graph.AdaptedMoE{MoE: moe}, append(slices.Clone(n.In), n.In[0]), slices.Clone(n.Weights)
	for i, name := range []string{"gate", "up", "down"} {
		w := n.Weights[i]
		s := graph.Slots{Of: w, Count: o.Adapters.Slots, Rank: o.Adapters.Rank}
		adapted.Weights = append(adapted.Weights, &graph.Weight{Name: n.Out[0].Name + "." + name + ".lora", Out: w.Out, In: w.In, Tensor: w.Tensor, Slots: &s})
	}
	if !o.Kernels.Has(&adapted) {
		return false
	}
	for i, w := range adapted.Weights[len(n.Weights):] {
		adapted.Weights[len(n.Weights)+i] = r.Slots(w.Name, w.Tensor, *w.Slots)
	}
	r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, adapted.Op, r.Of(adapted.In), adapted.Weights))
	return true
}

// adaptHeads has adapters change a product by head, where the device computes that and has all of it.
func adaptHeads(r *graph.Rewriter, n *graph.Node, o Options) bool {
	w := n.Weights[0]
	if o.Kernels == nil || w.Stack.Shards > 0 {
		return false
	}
	s := graph.Slots{Of: w, Count: o.Adapters.Slots, Rank: o.Adapters.Rank}
	slots := &graph.Weight{Name: n.Out[0].Name + ".lora", Out: w.Out, In: w.In, Tensor: w.Tensor, Slots: &s}
	if !o.Kernels.Has(&graph.Node{Op: graph.LoRAHeads{}, In: []*graph.Value{n.In[0], n.Out[0]}, Weights: []*graph.Weight{slots}, Out: n.Out}) {
		return false
	}
	in := r.Of(n.In)
	y := r.Add(n.At, n.Out[0].Name+".base", n.Op, in, n.Weights)
	r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, graph.LoRAHeads{}, append(in, y...), []*graph.Weight{r.Slots(slots.Name, w.Tensor, s)}))
	return true
}

// The tensors that a tied head and the embeddings have in common.
const (
	embedding = "token_embd.weight"
	head      = "output.weight"
)

// sameRows is the Linears that are the last of some, one behind the other in the graph, that read the same rows.
func sameRows(g *graph.Graph) map[*graph.Node]bool {
	last := map[*graph.Node]bool{}
	for i, n := range g.Nodes {
		if _, ok := n.Op.(graph.Linear); !ok {
			continue
		}
		last[n] = true
		if i+1 < len(g.Nodes) {
			next := g.Nodes[i+1]
			if _, ok := next.Op.(graph.Linear); ok && next.In[0] == n.In[0] {
				last[n] = false
			}
		}
	}
	return last
}

// CheckAdapters says what is wrong with numbers of adapters.
func CheckAdapters(a Adapters) error {
	if a.Slots < 0 || a.Slots > maxSlots || a.Slots > 0 && (a.Rank < 1 || a.Rank > maxRank) {
		return fmt.Errorf("%d adapters of rank %d at most are wanted; possible are up to %d, of rank 1 to %d", a.Slots, a.Rank, maxSlots, maxRank)
	}
	return nil
}

// maxSlots and maxRank bound what a kernel's tables hold; PEFT's own adapters have ranks of 4 to 256.
const (
	maxSlots = 1024
	maxRank  = 512
)

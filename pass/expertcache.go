package pass

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// checkSlots says why the second of two devices cannot have slots for experts of a graph.
func (l Layout) checkSlots(g *graph.Graph) error {
	switch {
	case l.ExpertSlots == 0:
		return nil
	case l.EarlyExperts == 0 || l.ExpertSlots < 0:
		return fmt.Errorf("the layout %s has %d slots for experts of each layer, and a cache is of experts that are apart from their layers", l, l.ExpertSlots)
	}
	for _, n := range g.Nodes {
		if o, ok := graph.Experts(n); ok && l.cached(n, g.Layers()) && l.ExpertSlots > o.Experts {
			return fmt.Errorf("the layout %s has %d slots for experts of each layer, and %s has %d", l, l.ExpertSlots, n.Out[0].Name, o.Experts)
		}
	}
	return nil
}

// cached reports whether a node is experts of which the second device has some in slots.
func (l Layout) cached(n *graph.Node, layers int) bool {
	return l.ExpertSlots > 0 && l.apart(n) && l.stage(n.Layer, layers) > 0
}

// cacheExperts gives the experts that are apart from their layers a part on the device of these: slots, which begin with the experts to which most rows came, or the first ones where nobody has counted.
func cacheExperts(g *graph.Graph, l Layout, loads ExpertLoads) (*graph.Graph, error) {
	var failed error
	layers := g.Layers()
	next, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
		o, ok := n.Op.(graph.MoE)
		if !ok || !l.cached(n, layers) {
			return false
		}
		begin, err := loads.most(n, o, l.ExpertSlots)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", n.Out[0].Name, err))
		}
		in := r.Of(n.In)
		x, shares := in[0], in[1]
		if !o.Shares {
			shares = r.Add(n.At, n.In[1].Name+".shares", graph.Route{TopK: o.TopK, NoRenorm: o.NoRenorm}, in[1:2], nil)[0]
			o.Shares, o.NoRenorm = true, false
		}
		divided := r.Add(n.At, shares.Name+".cold", graph.CacheShares{Slots: &graph.Placed{Of: begin, Experts: o.Experts}}, []*graph.Value{shares}, nil)
		if len(divided) != 2 { // the op refuses; Rewrite says why
			r.Replace(n.Out, divided[:1])
			return true
		}
		rename(divided[1], shares, ".hot")
		cold, hot := o, o
		cold.Cached = l.ExpertSlots
		hot.Experts, hot.TopK, hot.Of = l.ExpertSlots, min(o.TopK, l.ExpertSlots), o.Experts
		var slots []*graph.Weight
		for _, w := range n.Weights {
			stack := w.Stack
			stack.Count = l.ExpertSlots
			slots = append(slots, r.Made(w, graph.Weight{Stack: stack, Out: w.Out, In: w.In}, matricesOf(w, begin), fmt.Sprintf("[%d slots]", l.ExpertSlots)))
		}
		a := r.Add(n.At, n.Out[0].Name+".cold", cold, []*graph.Value{x, divided[0]}, n.Weights)
		b := r.Add(n.At, n.Out[0].Name+".hot", hot, []*graph.Value{x, divided[1]}, slots)
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, graph.Add{}, []*graph.Value{b[0], a[0]}, nil))
		return true
	})
	return next, cmp.Or(failed, err)
}

// most is the so many experts of a block to which most rows came.
func (l ExpertLoads) most(n *graph.Node, o graph.MoE, slots int) ([]int, error) {
	counts, err := l.of(n, o)
	if err != nil {
		return nil, err
	}
	all := make([]int, o.Experts)
	for e := range all {
		all[e] = e
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	begin := all[:slots]
	slices.Sort(begin)
	return begin, nil
}

// matricesOf is some matrices of a stack.
func matricesOf(w *graph.Weight, which []int) recipe.Recipe {
	var by recipe.Stack
	for _, i := range which {
		by = append(by, recipe.Slice{Of: w.Recipe, Count: w.Matrices(), Matrix: i, Matrices: 1, Rows: w.Out.Len(), Cols: w.In.Len()})
	}
	return by
}

// SlotBytes is what a slot for an expert takes in all layers together in which the second device has slots, or could have them, and the most slots there can be: as many as experts of the layer that has fewest.
func (l Layout) SlotBytes(g *graph.Graph) (bytes int64, most int) {
	l.ExpertSlots = 1
	for _, n := range g.Nodes {
		o, ok := graph.Experts(n)
		if !ok || !l.cached(n, g.Layers()) {
			continue
		}
		for i, w := range n.Weights {
			if !slices.Contains(n.Weights[:i], w) {
				bytes += w.Bytes() / int64(w.Matrices())
			}
		}
		if most == 0 || o.Experts < most {
			most = o.Experts
		}
	}
	return bytes, most
}

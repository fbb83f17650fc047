package pass

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Partition makes the graph of one device of a layout: Options.Rank of Options.Layout. Axes of heads, feed-forward blocks and the
// vocabulary are cut into shards, experts are distributed, and a pipeline stage has the nodes of its layers. Collective nodes go where
// devices need what others have: an AllReduce behind products whose columns are cut, an AllGather behind the logits, Dispatch and Combine around
// experts that devices with different rows share, Send and Recv between stages. On one device the graph stays as it is.
func Partition(g *graph.Graph, o Options) (*graph.Graph, error) {
	if !o.Layout.Splits() {
		return g, nil
	}
	if err := o.Layout.divides(g); err != nil {
		return nil, err
	}
	if o.Layout.ExpertSlots > 0 {
		var err error
		if g, err = cacheExperts(g, o.Layout, o.Loads); err != nil {
			return nil, err
		}
	}
	l, at := o.Layout, o.Rank
	if at.Replica < 0 || at.Replica >= l.Data || at.Stage < 0 || at.Stage >= l.Pipeline || at.Tensor < 0 || at.Tensor >= l.Tensor ||
		at.Sequence < 0 || at.Sequence >= max(l.Sequence, 1) {
		return nil, fmt.Errorf("%s is none of the layout %s; each counts from 0", at, l)
	}
	p := partitioner{layout: l, rank: at, graph: g, units: unitsOf(g), others: map[*graph.Value]*graph.Value{}}
	if err := p.place(o.Loads); err != nil {
		return nil, err
	}
	if p.assignStages(); l.EarlyExperts > 0 {
		p.findCrossings()
	} else {
		p.findEnds()
	}
	p.findChannels()
	return graph.Rewrite(g, p.visit)
}

// partitioner makes one device's graph.
type partitioner struct {
	layout      Layout
	rank        Rank
	places      map[*graph.Node]*graph.Placed // of blocks of experts; nil: in order
	graph       *graph.Graph
	units       units
	stages      map[*graph.Node]int
	first, last *graph.Node    // of this stage
	received    []*graph.Value // by this stage from the one before
	sent        []*graph.Value // by it to the one after
	again       []*graph.Node  // writes to caches of earlier stages that layers of this one read: they have a copy here
	crossings   *crossings     // where experts are apart from their layers
	channels    map[*graph.Cache]graph.Axis
	caches      bool                          // have been replaced
	others      map[*graph.Value]*graph.Value // by values of the new graph, where devices divide rows: what those of all are here, or a device's own of those
}

// everywhere is the stage of nodes that every stage computes for itself: those without inputs and weights, such as angles.
const everywhere = -1

// assignStages finds the stage of every node. A node outside layers is in the first stage before
// the layers and in the last one after them.
func (p *partitioner) assignStages() {
	p.stages = map[*graph.Node]int{}
	at, layers := 0, p.graph.Layers()
	for _, n := range p.graph.Nodes {
		switch {
		case n.Layer != graph.NoLayer:
			at = p.layout.stage(n.Layer, layers)
		case len(n.In) == 0 && len(n.Weights) == 0:
			p.stages[n] = everywhere
			continue
		case at > 0 || p.layout.Pipeline == 1 || n.Out[0].Rows == graph.Logits:
			at = p.layout.Pipeline - 1
		}
		p.stages[n] = at
		if _, divides := n.Op.(graph.CacheShares); divides || p.layout.apart(n) {
			p.stages[n] = 0
		}
	}
}

// findEnds finds the first and the last node of this stage, and what passes its ends.
func (p *partitioner) findEnds() {
	for _, n := range p.graph.Nodes {
		if p.stages[n] == p.rank.Stage {
			if p.first == nil {
				p.first = n
			}
			p.last = n
		}
	}
	until := p.lastReaders()
	p.copyCaches(until)
	for _, n := range p.graph.Nodes {
		for _, v := range n.Out {
			made := p.stages[n]
			if made == everywhere || v.Cache != nil {
				continue
			}
			if made < p.rank.Stage && until[v] >= p.rank.Stage {
				p.received = append(p.received, v)
			}
			if made <= p.rank.Stage && until[v] > p.rank.Stage {
				p.sent = append(p.sent, v)
			}
		}
	}
}

// lastReaders is the last stage in which each value is read.
func (p *partitioner) lastReaders() map[*graph.Value]int {
	until := map[*graph.Value]int{p.graph.Output: p.layout.Pipeline - 1, p.graph.Hidden: p.layout.Pipeline - 1}
	for _, n := range p.graph.Nodes {
		for _, v := range n.In {
			until[v] = max(until[v], p.stages[n])
		}
	}
	return until
}

// copyCaches finds which caches stages have copies of, since their layers attend to keys of a layer in an earlier one: what is written to them is sent on.
func (p *partitioner) copyCaches(until map[*graph.Value]int) {
	for _, w := range p.graph.Nodes {
		if _, ok := w.Op.(graph.KVWrite); !ok {
			continue
		}
		here, last := false, p.stages[w]
		for _, n := range p.graph.Nodes {
			if slices.Contains(n.In, w.Out[0]) {
				last = max(last, p.stages[n])
				here = here || p.stages[n] == p.rank.Stage
			}
		}
		if here && p.stages[w] < p.rank.Stage {
			p.again = append(p.again, w)
		}
		for _, v := range w.In {
			if v.Cache == nil {
				until[v] = max(until[v], last)
			}
		}
	}
}

// findChannels finds the axes whose numbers convolutions keep.
func (p *partitioner) findChannels() {
	p.channels = map[*graph.Cache]graph.Axis{}
	for _, n := range p.graph.Nodes {
		if _, ok := n.Op.(graph.CausalConv); ok {
			p.channels[n.In[1].Cache] = n.Weights[0].Out
		}
	}
}

// visit puts this device's part of a node in its place.
func (p *partitioner) visit(r *graph.Rewriter, n *graph.Node) bool {
	if !p.caches {
		p.caches = true
		for _, c := range p.graph.Caches {
			r.ReplaceCache(c, p.cache(c))
		}
		if n := p.layout.ranks(); n > 1 {
			r.SetSequence(graph.Sequence{Ranks: n, Rank: p.layout.row(p.rank), Split: p.layout.Method == Ring, Own: p.layout.OwnSequences()})
		}
	}
	stage := p.stages[n]
	if stage == everywhere {
		return !p.reads(n.Out)
	}
	if p.crossings != nil {
		p.besideExperts(r, n)
		return true
	}
	if stage != p.rank.Stage {
		return true
	}
	if n == p.first {
		for _, v := range p.received {
			recv := graph.Recv{From: p.rank.Stage - 1, Rows: v.Rows, Axis: p.units.shard(v.Axis, p.layout.Tensor, p.rank.Tensor), Type: v.Type}
			r.Replace([]*graph.Value{v}, r.Add(n.At, v.Name, recv, nil, nil))
		}
		for _, w := range p.again {
			p.node(r, w)
		}
	}
	if !p.selected(r, n) {
		p.node(r, n)
	}
	if n == p.last && p.rank.Stage < p.layout.Pipeline-1 {
		for _, v := range p.sent {
			out := r.Add(n.At, v.Name+".sent", graph.Send{To: p.rank.Stage + 1}, []*graph.Value{p.own(r, n, r.Of([]*graph.Value{v})[0])}, nil)
			r.SetOutput(out[0])
		}
	}
	return true
}

// reads reports whether a node of this stage reads one of the values.
func (p *partitioner) reads(values []*graph.Value) bool {
	return slices.ContainsFunc(p.graph.Nodes, func(n *graph.Node) bool {
		return p.stages[n] == p.rank.Stage && slices.ContainsFunc(n.In, func(v *graph.Value) bool { return slices.Contains(values, v) })
	})
}

// node adds this device's part of a node, and the collectives behind it.
func (p *partitioner) node(r *graph.Rewriter, n *graph.Node) {
	op, in, weights := p.attention(n.Op), p.rows(r, n, r.Of(n.In)), n.Weights
	moe, experts := op.(graph.MoE)
	var spread graph.Spread
	if experts {
		spread = p.spread(n, moe)
		op, weights = p.experts(r, moe, weights, spread)
		if p.layout.expertsOfRows() {
			in = dispatch(r, n, moe, spread, in)
		}
	} else {
		weights = p.weights(r, n)
	}
	if embed, ok := op.(graph.Embed); ok {
		embed.First = p.units.offset(n.Weights[0].Out, p.layout.Tensor, p.rank.Tensor)
		op = embed
	}
	op, in = p.wholeRows(r, n, p.heads(op, in), in)
	out := r.Add(n.At, n.Out[0].Name, op, in, weights)
	if len(out) != len(n.Out) { // the op cannot compute parts; Rewrite says why
		r.Replace(n.Out, out)
		return
	}
	if experts && p.layout.expertsOfRows() {
		rename(out[0], n.Out[0], ".arrived")
		out = r.Add(n.At, n.Out[0].Name, graph.Combine{Spread: spread}, []*graph.Value{out[0], in[1]}, nil)
	}
	out = slices.Clone(p.ownRows(r, n, out))
	for i, v := range out {
		if v.Partial {
			rename(v, n.Out[i], ".partial")
			out[i] = r.Add(n.At, n.Out[i].Name, graph.AllReduce{Ranks: p.layout.Tensor}, []*graph.Value{v}, nil)[0]
		} else if n.Out[i] == p.graph.Output && v.Axis.Shards > 0 {
			rename(v, n.Out[i], ".shard")
			out[i] = r.Add(n.At, n.Out[i].Name, graph.AllGather{Ranks: p.layout.Tensor, Axis: n.Out[i].Axis}, []*graph.Value{v}, nil)[0]
		}
	}
	r.Replace(n.Out, out)
}

// heads is a recurrent op, or a norm in groups, on this device's heads.
func (p *partitioner) heads(op graph.Op, in []*graph.Value) graph.Op {
	pieces := p.layout.Tensor
	if len(in) == 0 || in[0].Axis.Shards == 0 {
		return op
	}
	switch o := op.(type) {
	case graph.SSD:
		o.Heads, o.Groups = o.Heads/pieces, max(o.Groups/pieces, 1)
		return o
	case graph.GatedDelta:
		o.ValueHeads, o.KeyHeads = o.ValueHeads/pieces, max(o.KeyHeads/pieces, 1)
		return o
	case graph.KimiDelta:
		o.Heads /= pieces
		return o
	case graph.RMSNorm:
		o.Groups /= pieces
		return o
	}
	return op
}

// wholeRows gives an op that looks at whole rows, of which this device has a shard, the sums of them over all devices.
func (p *partitioner) wholeRows(r *graph.Rewriter, n *graph.Node, op graph.Op, in []*graph.Value) (graph.Op, []*graph.Value) {
	if len(in) != 1 || in[0].Axis.Shards == 0 {
		return op, in
	}
	sums, of, mine := graph.RowSums{}, n.In[0].Axis.Len(), in[0].Axis
	if mine.Name == keyHeads && mine.Count*p.layout.Tensor > n.In[0].Axis.Count { // some heads are on several devices, and count on each
		of = mine.Len() * p.layout.Tensor
	}
	switch o := op.(type) {
	case graph.RMSNorm:
		if !o.WholeRows() {
			return op, in
		}
		o.Of = of
		op = o
	case graph.GaussianTopK:
		sums.Plain, o.Of = true, of
		op = o
	default:
		return op, in
	}
	part := r.Add(n.At, n.Out[0].Name+".sums.partial", sums, in[:1], nil)
	return op, append(in, r.Add(n.At, n.Out[0].Name+".sums", graph.AllReduce{Ranks: p.layout.Tensor}, part[:1], nil)[0])
}

// rename gives a value the name of another with a suffix.
func rename(v, as *graph.Value, suffix string) { v.Name = as.Name + suffix }

// spread is how devices with different rows divide the experts of a block.
func (p *partitioner) spread(n *graph.Node, o graph.MoE) graph.Spread {
	s := graph.Spread{Ranks: p.layout.ranks(), Split: p.layout.Tensor, Part: p.rank.Tensor, Experts: o.Experts, Top: o.TopK, Placed: p.places[n]}
	if s.Placed != nil {
		s.Experts = len(s.Placed.Of)
	}
	return s
}

// dispatch splits the choice of experts off a block of them, and sends its rows to the devices that have those.
func dispatch(r *graph.Rewriter, n *graph.Node, o graph.MoE, spread graph.Spread, in []*graph.Value) []*graph.Value {
	shares := in[1]
	if !o.Shares {
		shares = r.Add(n.At, n.In[1].Name+".shares", graph.Route{TopK: o.TopK, NoRenorm: o.NoRenorm}, in[1:2], nil)[0]
	}
	out := r.Add(n.At, n.In[0].Name+".arrived", graph.Dispatch{Spread: spread}, []*graph.Value{in[0], shares}, nil)
	if len(out) > 1 {
		rename(out[1], shares, ".arrived")
	}
	return out
}

// weights is this device's parts of a node's weights. A bias of a product whose columns are cut is added by the first rank alone.
func (p *partitioner) weights(r *graph.Rewriter, n *graph.Node) []*graph.Weight {
	whole := n.Weights
	if _, ok := n.Op.(graph.Linear); ok && p.layout.Tensor > 1 && p.rank.Tensor > 0 && cut(whole[0].In) {
		whole = whole[:1]
	}
	if _, ok := n.Op.(graph.Attention); ok { // sinks
		var parts []*graph.Weight
		for _, w := range whole {
			parts = append(parts, p.part(r, w, w.Stack, 0, p.layout.heads(), p.layout.piece(p.rank)))
		}
		return parts
	}
	var parts []*graph.Weight
	for _, w := range whole {
		stack := p.units.shard(w.Stack, p.layout.Tensor, p.rank.Tensor) // of heads
		parts = append(parts, p.part(r, w, stack, p.units.offset(w.Stack, p.layout.Tensor, p.rank.Tensor), p.layout.Tensor, p.rank.Tensor))
	}
	return parts
}

// part is piece i of so many of a weight, or of the matrices of its stack from one on.
func (p *partitioner) part(r *graph.Rewriter, w *graph.Weight, stack graph.Axis, matrix, pieces, i int) *graph.Weight {
	to := graph.Weight{Stack: stack, Out: p.units.shard(w.Out, pieces, i), In: p.units.shard(w.In, pieces, i)}
	if to.Stack == w.Stack && to.Out == w.Out && to.In == w.In {
		return w
	}
	suffix := fmt.Sprintf("[part %d of %d]", i, pieces)
	switch vector := w.Out.Len() == 1; {
	case p.units.lists[w.Out.Name] != nil:
		return r.Made(w, to, recipe.Permute{Of: w.Recipe, Index: p.units.numbers(w.Out, pieces, i)}, suffix)
	case p.units.lists[w.In.Name] != nil && vector:
		return r.Made(w, to, recipe.Permute{Of: w.Recipe, Index: p.units.numbers(w.In, pieces, i)}, suffix)
	case p.units.lists[w.In.Name] != nil:
		n := to.In.Len()
		by := recipe.Slice{Of: p.units.columns(w.Recipe, w.In, pieces), Count: 1, Matrices: 1, Rows: w.Out.Len(), Col: i * n, Cols: n}
		return r.Made(w, to, by, suffix)
	}
	return r.Shard(w, to, matrix, p.units.offset(w.Out, pieces, i), p.units.offset(w.In, pieces, i))
}

// experts is the block with the experts that this device holds, each of them whole or a piece.
func (p *partitioner) experts(r *graph.Rewriter, o graph.MoE, weights []*graph.Weight, spread graph.Spread) (graph.Op, []*graph.Weight) {
	pieces := p.layout.pieces()
	piece := p.rank.Tensor % pieces
	if p.layout.expert() > 1 {
		o.Held = o.Experts / p.layout.expert()
		o.First = p.rank.Tensor / pieces * o.Held
		if p.layout.expertsOfRows() {
			o.Experts, o.Held, o.First = spread.Experts, spread.Held(), spread.First(p.layout.row(p.rank))
			o.Sources, o.Shares, o.NoRenorm = p.layout.ranks(), true, false
		}
	}
	o.NoDownBias = o.Biased && piece > 0
	var parts []*graph.Weight
	for _, w := range weights {
		stack := w.Stack
		if o.Held > 0 {
			stack.Count, stack.Shards = o.Held, p.layout.expert()
		}
		if at := spread.Placed; at != nil {
			parts = append(parts, chosen(r, w, stack, at.Of[o.First:o.First+o.Held]))
			continue
		}
		parts = append(parts, p.part(r, w, stack, o.First, pieces, piece))
	}
	return o, parts
}

// cache is this device's part of a cache; nil when its layer is in another stage, and none here attends to it.
func (p *partitioner) cache(c *graph.Cache) *graph.Cache {
	again := slices.ContainsFunc(p.again, func(w *graph.Node) bool {
		return slices.ContainsFunc(w.Out, func(v *graph.Value) bool { return v.Cache == c })
	})
	if p.layout.stage(c.Layer, p.graph.Layers()) != p.rank.Stage && !again {
		return nil
	}
	part := *c
	if channels, ok := p.channels[c]; ok {
		part.State.Size = p.units.shard(channels, p.layout.Tensor, p.rank.Tensor).Len()
		return &part
	}
	part.State = p.units.shard(c.State, p.layout.Tensor, p.rank.Tensor)
	pieces, piece := p.layout.heads(), p.layout.piece(p.rank)
	part.K, part.V = p.units.shard(c.K, pieces, piece), p.units.shard(c.V, pieces, piece)
	return &part
}

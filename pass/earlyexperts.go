package pass

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// WithoutExperts is Split where the second device has not the experts of the first so many layers of the model: their weights are on the first device, which gets the rows that
// pass them and gives back what they make of these. All layers may be on the second device then.
func WithoutExperts(layers, last, experts int) Layout {
	l := Split(layers, last)
	if experts > layers-last { // others are of layers of the first device
		l.EarlyExperts = experts
	}
	return l
}

// checkEarly says why a graph's experts cannot be on the first of two devices so.
func (l Layout) checkEarly(g *graph.Graph) error {
	n := l.EarlyExperts
	switch {
	case n == 0:
		return nil
	case l.Pipeline != 2 || l.Tensor != 1 || l.expert() != 1 || l.ranks() != 1 || l.Layers == nil:
		return fmt.Errorf("the layout %s has experts of layers apart from these, which two devices do that divide layers alone", l)
	case n < 0 || n > g.Layers():
		return fmt.Errorf("the layout %s has the experts of the first %d layers apart; %s has %d", l, n, g.Name, g.Layers())
	case !hasExperts(g):
		return fmt.Errorf("experts are to be apart from their layers, and %s has none", g.Name)
	case !slices.ContainsFunc(g.Nodes, func(x *graph.Node) bool { return l.apart(x) && l.stage(x.Layer, g.Layers()) > 0 }):
		return fmt.Errorf("%s has no experts in the layers %d to %d, which are to be apart from these", g.Name, l.Layers[0], n-1)
	}
	return nil
}

// hasExperts reports whether a graph has blocks of experts.
func hasExperts(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(x *graph.Node) bool { _, ok := graph.Experts(x); return ok })
}

// apart reports whether a node is experts that are on the first device, wherever their layer is.
func (l Layout) apart(n *graph.Node) bool {
	o, experts := graph.Experts(n)
	return experts && o.Of == 0 && n.Layer < l.EarlyExperts
}

// crossing is a value that one of two devices makes and the other reads.
type crossing struct {
	value *graph.Value
	from  int // the device that makes it
	after int // the node, by its place in the graph, behind which it is sent: all that its first reader waits for from this device is there then
}

// crossings are the values that go from one device to the other, in the order in which both do so: what is to be received before something is sent is sent before that on the other, so that neither
// waits for the other for good, whatever lies between.
type crossings struct {
	all   []crossing
	next  int // of all
	at    map[*graph.Node]int
	wants map[*graph.Value]bool // those that this device has still to receive
}

// findCrossings finds what goes from one device to the other where experts are apart from their layers.
func (p *partitioner) findCrossings() {
	c := &crossings{at: map[*graph.Node]int{}, wants: map[*graph.Value]bool{}}
	made := map[*graph.Value]int{}
	var again []*graph.Node // writes to caches of the first device that layers of the second read
	for i, n := range p.graph.Nodes {
		c.at[n] = i
		for _, v := range n.Out {
			made[v] = p.stages[n]
		}
		if _, ok := n.Op.(graph.KVWrite); ok && p.stages[n] == 0 && p.readIn(1, n.Out[0]) {
			again = append(again, n)
		}
	}
	found := map[*graph.Value]bool{}
	for _, n := range p.graph.Nodes {
		for stage := range 2 {
			if p.stages[n] != stage && !(stage == 1 && slices.Contains(again, n)) {
				continue
			}
			after := 0
			var crossed []*graph.Value
			for _, v := range n.In {
				if v.From == nil || v.Cache != nil || made[v] != 1-stage {
					continue
				}
				after = max(after, c.at[v.From])
				if !found[v] {
					found[v] = true
					crossed = append(crossed, v)
				}
			}
			for _, v := range crossed {
				c.all = append(c.all, crossing{v, 1 - stage, after})
				c.wants[v] = stage == p.rank.Stage
			}
		}
	}
	slices.SortStableFunc(c.all, func(a, b crossing) int { return a.after - b.after })
	if p.rank.Stage == 1 {
		p.again = again
	}
	p.crossings = c
}

// readIn reports whether a node of a stage reads a value.
func (p *partitioner) readIn(stage int, v *graph.Value) bool {
	return slices.ContainsFunc(p.graph.Nodes, func(n *graph.Node) bool { return p.stages[n] == stage && slices.Contains(n.In, v) })
}

// besideExperts is visit where experts are apart from their layers.
func (p *partitioner) besideExperts(r *graph.Rewriter, n *graph.Node) {
	c := p.crossings
	if p.stages[n] == p.rank.Stage || slices.Contains(p.again, n) {
		for _, v := range n.In {
			for c.wants[v] {
				p.cross(r, n)
			}
		}
		p.node(r, n)
	}
	last := c.next
	for i := c.next; i < len(c.all) && c.all[i].after <= c.at[n]; i++ {
		if c.all[i].from == p.rank.Stage {
			last = i + 1
		}
	}
	for c.next < last {
		p.cross(r, n)
	}
}

// cross sends or receives the next value.
func (p *partitioner) cross(r *graph.Rewriter, n *graph.Node) {
	c := p.crossings
	x := c.all[c.next]
	c.next++
	v := x.value
	if x.from != p.rank.Stage {
		c.wants[v] = false
		r.Replace([]*graph.Value{v}, r.Add(n.At, v.Name, graph.Recv{From: x.from, Rows: v.Rows, Axis: v.Axis, Type: v.Type}, nil, nil))
		return
	}
	sent := r.Add(n.At, v.Name+".sent", graph.Send{To: 1 - x.from}, r.Of([]*graph.Value{v}), nil)
	if x.from == 0 { // which has not the logits
		r.SetOutput(sent[0])
	}
}

// ApartFrom is of how many first layers of a graph the experts are apart where the second device has so many last layers, if those of the first so many are asked for: none, where no layer of the second device among them
// has experts, as the first layers of some models have none.
func ApartFrom(g *graph.Graph, last, experts int) int {
	l := WithoutExperts(g.Layers(), last, experts)
	if slices.ContainsFunc(g.Nodes, func(x *graph.Node) bool { return l.apart(x) && l.stage(x.Layer, g.Layers()) > 0 }) || !hasExperts(g) { // which the layout's check says
		return experts
	}
	return 0
}

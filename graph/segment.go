package graph

import "fmt"

// Segment is layers [from, to) of a model as a graph of its own, with the model's head behind them: its logits are what the model would say if it ended there. Behind the
// first layer it goes on from hidden states, its input, and before the last it keeps those that the next segment goes on from. Weights and caches are the
// model's.
func Segment(g *Graph, from, to int) (*Graph, error) {
	layers := g.Layers()
	if from < 0 || from >= to || to > layers {
		return nil, fmt.Errorf("graph %s: layers %d to %d are wanted, and it has %d", g.Name, from, to, layers)
	}
	if err := g.attentionOnly(); err != nil {
		return nil, err
	}
	last, err := outputOf(g)
	if err != nil {
		return nil, err
	}
	cuts := map[*Value]*Value{} // by what the old graph has there: what comes in its place
	var before, after *Value
	if from > 0 {
		if before, err = inputOf(g, from); err != nil {
			return nil, err
		}
	}
	if to < layers {
		if after, err = inputOf(g, to); err != nil {
			return nil, err
		}
		cuts[last] = after
	}
	needed := g.neededFor([]*Value{g.Output}, cuts, before, func(c *Cache) bool { return c.Layer >= from && c.Layer < to })
	return g.extract(fmt.Sprintf("%s %d:%d", g.Name, from, to), needed, before, func(r *Rewriter, n *Node) {
		if after != nil && r.by[after] != nil && r.by[last] == nil {
			r.by[last] = r.by[after]
			r.kept = append(r.kept, r.by[after])
		}
	}, nil)
}

// FillSegment is what the layers from one on write to their caches, as a graph of its own, if the hidden states before that layer, its input, are those before
// each later layer too. Rows of tokens for which the model was left early so have keys and values for the tokens after them (Schuster et al.,
// arXiv:2207.07061, section 3.3).
func FillSegment(g *Graph, from int) (*Graph, error) {
	layers := g.Layers()
	if from < 1 || from >= layers {
		return nil, fmt.Errorf("graph %s: caches from layer %d on are to be filled; 1 to %d are possible", g.Name, from, layers-1)
	}
	if err := g.attentionOnly(); err != nil {
		return nil, err
	}
	cuts := map[*Value]*Value{}
	before, err := inputOf(g, from)
	if err != nil {
		return nil, err
	}
	for i := from + 1; i < layers; i++ {
		v, err := inputOf(g, i)
		if err != nil {
			return nil, err
		}
		cuts[v] = before
	}
	needed := g.neededFor(nil, cuts, before, func(c *Cache) bool { return c.Layer >= from })
	return g.extract(fmt.Sprintf("%s fill %d:", g.Name, from), needed, before, func(r *Rewriter, _ *Node) {
		for v := range cuts {
			r.by[v] = r.by[before]
		}
	}, func(r *Rewriter) { r.output = r.Add("", "selected", SelectRows{}, []*Value{r.by[before]}, nil)[0] })
}

// attentionOnly refuses graphs whose layers keep states: those of layers that are left out would be missing.
func (g *Graph) attentionOnly() error {
	for _, c := range g.Caches {
		if c.Recurrent() {
			return fmt.Errorf("graph %s: it has recurrent layers, whose states need all layers of every token", g.Name)
		}
	}
	return nil
}

// outputOf is the one matrix of hidden states that reaches the head from the last layer.
func outputOf(g *Graph) (*Value, error) {
	last := -1
	for i, n := range g.Nodes {
		if n.Layer != NoLayer {
			last = i
		}
	}
	in := map[*Value]bool{}
	for _, n := range g.Nodes[:last+1] {
		for _, v := range n.Out {
			in[v] = v.Cache == nil
		}
	}
	var found *Value
	for _, n := range g.Nodes[last+1:] {
		for _, v := range n.In {
			if in[v] && found != nil && found != v {
				return nil, fmt.Errorf("graph %s: its head reads %s and %s of the layers, and hidden states are one value", g.Name, found.Name, v.Name)
			}
			if in[v] {
				found = v
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("graph %s: its head reads no hidden states of the layers", g.Name)
	}
	return found, nil
}

// neededFor is the nodes that make values, and those that write the caches that are wanted. What is made of before is there, and of a value of cuts what
// stands for it is made instead.
func (g *Graph) neededFor(values []*Value, cuts map[*Value]*Value, before *Value, wanted func(*Cache) bool) map[*Node]bool {
	needed := map[*Node]bool{}
	var need func(v *Value)
	need = func(v *Value) {
		if to := cuts[v]; to != nil {
			v = to
		}
		if v == before || v.From == nil || needed[v.From] {
			return
		}
		needed[v.From] = true
		for _, in := range v.From.In {
			need(in)
		}
	}
	for _, v := range values {
		need(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Cache != nil && wanted(v.Cache) {
				need(v)
			}
		}
	}
	return needed
}

// extract is the graph of some of the nodes. The value before is an input, if there is one; stand is called before each node, to say what stands
// for values that are not made, and finish, if there is one, at the end.
func (g *Graph) extract(name string, needed map[*Node]bool, before *Value, stand func(*Rewriter, *Node), finish func(*Rewriter)) (*Graph, error) {
	whole := *g
	whole.Name, whole.Kept, whole.Plain = name, nil, nil
	used := map[*Cache]bool{}
	for n := range needed {
		for _, v := range append(n.In[:len(n.In):len(n.In)], n.Out...) {
			used[v.Cache] = true
		}
	}
	begun, left := false, len(needed)
	part, err := Rewrite(&whole, func(r *Rewriter, n *Node) bool {
		if !begun {
			begun = true
			for _, c := range g.Caches {
				if !used[c] {
					r.ReplaceCache(c, nil)
				}
			}
			if before != nil {
				r.by[before] = r.b.input(before.Name, *before)
			}
		}
		stand(r, n)
		if !needed[n] {
			return true
		}
		r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), n.Weights))
		if left--; left == 0 && finish != nil {
			finish(r)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return part, nil
}

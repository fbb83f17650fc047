package graph

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Rewriter copies a graph node by node, so that a pass can put other nodes in place of some. Passes speak of the old
// graph's values; the Rewriter knows what stands for them in the new one.
type Rewriter struct {
	b           *Builder
	by          map[*Value]*Value
	requantised map[*Weight]*Weight // into other formats
	shards      map[*Weight][]shard
	caches      map[*Cache]*Cache // that a pass has replaced; nil: left out
	output      *Value            // that a pass has chosen
	kept        []*Value          // hidden states that a pass keeps beside those of the old graph
}

// Rewrite makes a new graph: visit is called for every node in order and either returns false, which keeps the node,
// or has emitted (or left out) what it wants instead. Weights and caches are shared with the old graph, which stays
// as it is; weights that nothing uses any more are dropped.
func Rewrite(g *Graph, visit func(r *Rewriter, n *Node) bool) (*Graph, error) {
	r := &Rewriter{
		b: NewBuilder(g.Name, nil, F32, F32), by: map[*Value]*Value{},
		requantised: map[*Weight]*Weight{}, shards: map[*Weight][]shard{}, caches: map[*Cache]*Cache{},
	}
	r.b.g.Sequence = g.Sequence
	for _, v := range g.Inputs {
		r.by[v] = r.b.input(v.Name, *v)
	}
	for _, n := range g.Nodes {
		r.b.layer = n.Layer
		if !visit(r, n) {
			r.Replace(n.Out, r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), n.Weights))
		}
	}
	used := map[*Weight]bool{}
	for _, n := range r.b.g.Nodes {
		for _, w := range n.Weights {
			used[w] = true
		}
	}
	for _, c := range g.Caches {
		if c := r.cache(c); c != nil {
			r.b.g.Caches = append(r.b.g.Caches, c)
		}
	}
	for _, w := range g.Weights {
		from := []*Weight{w, r.requantised[w]}
		for _, s := range r.shards[w] {
			from = append(from, s.part)
		}
		for _, w := range from {
			if used[w] {
				r.b.g.Weights = append(r.b.g.Weights, w)
			}
		}
	}
	if r.b.g.Hidden == nil { // the visitor has not chosen another
		r.b.g.Hidden = r.by[g.Hidden]
	}
	for i, v := range g.Kept {
		if r.by[v] == nil {
			return nil, fmt.Errorf("graph %s: its hidden output %d, %s, is dropped by a pass", g.Name, i, v.Name)
		}
		r.b.g.Kept = append(r.b.g.Kept, r.by[v])
	}
	r.b.g.Kept = append(r.b.g.Kept, r.kept...)
	if r.output == nil {
		r.output = r.by[g.Output]
	}
	return r.b.Finish(r.output)
}

// SetOutput makes a value of the new graph its output, in place of what stands for the old one's.
func (r *Rewriter) SetOutput(v *Value) { r.output = v }

// SetSequence says how devices divide the rows of steps in the new graph.
func (r *Rewriter) SetSequence(s Sequence) { r.b.g.Sequence = s }

// ReplaceCache has the new graph use another cache; nil: none, and no node may read it.
func (r *Rewriter) ReplaceCache(old, now *Cache) { r.caches[old] = now }

func (r *Rewriter) cache(old *Cache) *Cache {
	if now, replaced := r.caches[old]; replaced {
		return now
	}
	return old
}

// Of is what stands for values of the old graph.
func (r *Rewriter) Of(old []*Value) []*Value {
	now := make([]*Value, len(old))
	for i, v := range old {
		if v.Cache != nil && v.From == nil && r.by[v] == nil { // the first version
			if c := r.cache(v.Cache); c != nil {
				r.by[v] = r.b.value(Value{Cache: c}, v.Name)
			}
		}
		if now[i] = r.by[v]; now[i] == nil {
			r.b.fail("%s is read after the pass has dropped it", v.Name)
			now[i] = v
		}
	}
	return now
}

// Add adds a node to the new graph, reading values of the new graph.
func (r *Rewriter) Add(at, name string, op Op, in []*Value, weights []*Weight) []*Value {
	return r.b.emit(at, name, op, in, weights)
}

// Replace says that values of the new graph stand for those of the old one from here on, and take over their names.
func (r *Rewriter) Replace(old, now []*Value) {
	for i, v := range old {
		if now[i].From != nil {
			now[i].Name = v.Name
		}
		r.by[v] = now[i]
	}
}

// Requantised is a weight in another format, one and the same however often it is asked for. The device quantises the numbers of the
// file on load.
func (r *Rewriter) Requantised(w *Weight, f quant.Format) *Weight {
	if r.requantised[w] == nil {
		now := *w
		now.Format = f
		r.requantised[w] = &now
	}
	return r.requantised[w]
}

// Slots is a new weight that adapters of another fill: see Weight.Slots. tensor is what they call it, in GGUF's naming.
func (r *Rewriter) Slots(name, tensor string, s Slots) *Weight {
	return r.b.Slots(name, tensor, s)
}

// Shard is a part of a weight, of the shape of part, from a matrix of its stack, a row and a column on; one and the same however often it is
// asked for. Rows beyond the weight's are padding.
func (r *Rewriter) Shard(w *Weight, part Weight, matrix, row, col int) *Weight {
	of := recipe.Slice{
		Of: w.Recipe, Count: w.Matrices(), Matrix: matrix, Matrices: part.Matrices(),
		Row: row, Rows: part.Out.Len(), Col: col, Cols: part.In.Len(),
	}
	return r.Made(w, part, of, sliceText(w, &of))
}

// Made is a part of a weight, of the shape of part, as a recipe makes it of the weight's; one and the same however often it is asked for. Its name ends in suffix.
func (r *Rewriter) Made(w *Weight, part Weight, by recipe.Recipe, suffix string) *Weight {
	for _, s := range r.shards[w] {
		if reflect.DeepEqual(s.by, by) { // a recipe may hold a list
			return s.part
		}
	}
	now := *w
	now.Stack, now.Out, now.In = part.Stack, part.Out, part.In
	now.Name += suffix
	if w.Recipe != nil {
		now.Recipe = by
	}
	r.shards[w] = append(r.shards[w], shard{by, &now})
	return &now
}

// shard is a part of a weight that a pass has asked for.
type shard struct {
	by   recipe.Recipe
	part *Weight
}

// sliceText is a slice of a weight as NumPy writes it: "[0:8]", "[:, 0:8]", "[2:4]" of a stack's matrices.
func sliceText(w *Weight, s *recipe.Slice) string {
	var parts []string
	add := func(from, n, all int) {
		if from == 0 && n == all {
			parts = append(parts, ":")
		} else {
			parts = append(parts, fmt.Sprintf("%d:%d", from, from+n))
		}
	}
	if s.Count > 1 {
		add(s.Matrix, s.Matrices, s.Count)
	}
	if w.Out.Len() > 1 {
		add(s.Row, s.Rows, w.Out.Len())
	}
	add(s.Col, s.Cols, w.In.Len())
	for len(parts) > 1 && parts[len(parts)-1] == ":" {
		parts = parts[:len(parts)-1]
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Unfuse puts the simpler ops that a node stands for in its place; false when the node is no fusion.
func (r *Rewriter) Unfuse(n *Node) bool {
	now := n.Op.Unfused(r.b, n, r.Of(n.In))
	if now == nil {
		return false
	}
	r.Replace(n.Out, now)
	return true
}

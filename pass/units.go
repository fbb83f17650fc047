package pass

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Axes with rules of their own.
const (
	keyHeads   = "kv"
	vocabulary = "vocab"
	ffn        = "ffn"
)

// cut tells the axes that tensor parallelism divides. The residual stream (hidden) is whole on every device. Of recurrent layers these are heads (inner,
// values), channels of convolutions, and rows of several lists of heads (xbc, qkv).
func cut(a graph.Axis) bool {
	switch a.Name {
	case "heads", keyHeads, ffn, vocabulary, "inner", "values", "channels", "xbc", "qkv":
		return true
	}
	return false
}

// units says what must stay together where axes are divided.
type units struct {
	blocks map[string]int    // by the names of axes: how many numbers a packed weight has in one block
	lists  map[string][]list // by the names of axes that are several lists of heads one behind the other: those
}

// list is heads one behind the other, each of so many of an axis's groups.
type list struct {
	heads, size int
	shared      bool // heads may be fewer than devices, which then hold copies
}

// unitsOf finds the units of a graph: the least common multiple of the blocks of the weights whose rows run along an axis, and the lists of recurrent ops.
func unitsOf(g *graph.Graph) units {
	u := units{map[string]int{}, map[string][]list{}}
	for _, n := range g.Nodes {
		for _, w := range n.Weights {
			if block := w.Format.Block(); cut(w.In) && w.In.Len()%block == 0 {
				u.blocks[w.In.Name] = lcm(u.of(w.In), block)
			}
		}
		switch o := n.Op.(type) {
		case graph.SSD:
			u.lists[n.In[0].Axis.Name] = []list{{o.Heads, o.HeadSize, false}, {o.Groups, o.StateSize, true}, {o.Groups, o.StateSize, true}}
		case graph.GatedDelta:
			keys := list{o.KeyHeads, o.KeySize, !o.Tiled}
			values := []list{{o.ValueHeads, 1, false}}
			if o.Tiled { // those of each key head are one in each list
				values = nil
				for range o.ValueHeads / o.KeyHeads {
					values = append(values, list{o.KeyHeads, 1, false})
				}
				u.lists[n.Out[0].Axis.Name] = values
			}
			all := []list{keys, keys}
			for _, v := range values {
				all = append(all, list{v.heads, o.ValueSize, false})
			}
			u.lists[n.In[0].Axis.Name] = all
		}
	}
	return u
}

func (u units) of(a graph.Axis) int { return max(u.blocks[a.Name], a.Size, 1) }

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// each is how many heads of a list a piece of so many has.
func (l list) each(pieces int) int { return max(l.heads/pieces, 1) }

// divides says why tensor parallelism cannot cut a weight into so many pieces. Key heads may be fewer than devices, which then hold
// copies; a vocabulary is padded; a feed-forward block's numbers are cut unequally where equal pieces would end within a unit.
func (u units) divides(w *graph.Weight, pieces int) error {
	for _, a := range []graph.Axis{w.Stack, w.Out, w.In} {
		if lists := u.lists[a.Name]; lists != nil && pieces > 1 {
			if err := u.dividesLists(w, a, lists, pieces); err != nil {
				return err
			}
			continue
		}
		switch {
		case pieces == 1 || !cut(a) || a.Name == vocabulary || a.Name != ffn && a.Count%pieces == 0:
		case a.Name == keyHeads && pieces%a.Count == 0:
		case a.Name == ffn && a.Len()/u.of(a) >= pieces:
		case a.Name == ffn && u.of(a) > 1:
			return fmt.Errorf("%d %s in blocks of %d cannot be divided among %d devices", a.Len(), a.Name, u.of(a), pieces)
		default:
			return fmt.Errorf("%d %s cannot be divided equally among %d devices", a.Count, a.Name, pieces)
		}
	}
	if in := u.shard(w.In, pieces, 0); in.Len()%w.Format.Block() != 0 {
		return fmt.Errorf("rows of %d numbers, divided among %d devices, are %d each, which do not divide into %s blocks of %d", w.In.Len(), pieces, in.Len(), w.Format, w.Format.Block())
	}
	return nil
}

// dividesLists is divides for an axis of several lists of heads.
func (u units) dividesLists(w *graph.Weight, a graph.Axis, lists []list, pieces int) error {
	for _, l := range lists {
		if l.heads%pieces != 0 && !(l.shared && pieces%l.heads == 0) {
			return fmt.Errorf("%d heads of %s cannot be divided equally among %d devices", l.heads, a.Name, pieces)
		}
		if run, block := l.each(pieces)*l.size*a.Size, w.Format.Block(); a == w.In && run%block != 0 {
			return fmt.Errorf("%d heads of %s on each of %d devices are %d numbers of a row, which do not divide into %s blocks of %d", l.each(pieces), a.Name, pieces, run, w.Format, block)
		}
	}
	return nil
}

// shard is piece i of so many of an axis.
func (u units) shard(a graph.Axis, pieces, i int) graph.Axis {
	switch {
	case pieces == 1 || !cut(a):
		return a
	case u.lists[a.Name] != nil:
		a.Count = 0
		for _, l := range u.lists[a.Name] {
			a.Count += l.each(pieces) * l.size
		}
	case a.Name == ffn:
		a.Count = (u.offset(a, pieces, i+1) - u.offset(a, pieces, i)) / a.Size
	default:
		a.Count = (a.Count + pieces - 1) / pieces
	}
	a.Shards = pieces
	return a
}

// offset is the number with which piece i of so many begins.
func (u units) offset(a graph.Axis, pieces, i int) int {
	switch {
	case pieces == 1 || !cut(a):
		return 0
	case a.Name == vocabulary: // the last piece is padded
		return i * ((a.Count + pieces - 1) / pieces) * a.Size
	case a.Name == ffn: // the first pieces are the largest
		unit := u.of(a)
		if a.Len()/pieces%unit == 0 && a.Len()%pieces == 0 {
			return i * a.Len() / pieces
		}
		return min((i*(a.Len()/unit)+pieces-1)/pieces*unit, a.Len())
	}
	return i * a.Count / pieces * a.Size // key heads that are fewer: the one that the piece's query heads share
}

// numbers are those that piece i of so many has of an axis of several lists of heads.
func (u units) numbers(a graph.Axis, pieces, i int) (numbers []int) {
	at := 0
	for _, l := range u.lists[a.Name] {
		head := l.size * a.Size
		first := at + i*l.heads/pieces*head
		for k := range l.each(pieces) * head {
			numbers = append(numbers, first+k)
		}
		at += l.heads * head
	}
	return numbers
}

// columns puts the columns of a matrix whose rows run along an axis of several lists of heads in the order of the pieces that have them, which is how Slice takes them.
func (u units) columns(of recipe.Recipe, a graph.Axis, pieces int) recipe.Recipe {
	lists := u.lists[a.Name] // alike: each has one of every key head's value heads
	r := recipe.PermuteColumns{Of: of, Each: lists[0].each(pieces) * lists[0].size * a.Size}
	for i := range pieces {
		for l := range lists {
			r.Index = append(r.Index, l*pieces+i)
		}
	}
	return r
}

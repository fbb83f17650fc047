package graph

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/weights/recipe"
)

// String is the graph as text, one node a line: what it makes, from what, with which weights. It is what people
// review when a model or a pass changes, so it holds nothing that a mere refactoring would move.
func (g *Graph) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "graph %s\n", g.Name)
	groups := len(g.CacheGroups())
	for _, c := range g.Caches {
		if c.Recurrent() {
			fmt.Fprintf(&s, "  state %s  %s  %s", c.Name, c.State, c.Type)
		} else {
			fmt.Fprintf(&s, "  cache %s  k %s  v %s  %s", c.Name, c.K, c.V, c.Type)
		}
		if c.Latent {
			s.WriteString("  v within k")
		}
		if c.Window > 0 {
			fmt.Fprintf(&s, "  window %d", c.Window)
		}
		if groups > 1 {
			fmt.Fprintf(&s, "  group %d", c.Group)
		}
		s.WriteByte('\n')
	}
	for _, v := range g.Inputs {
		fmt.Fprintf(&s, "  input %s [%s, %s] %s\n", v.Name, v.Rows, v.Axis, v.Type)
	}
	for _, w := range g.Weights {
		if _, plain := w.Recipe.(recipe.Tensor); !plain && w.Recipe != nil {
			fmt.Fprintf(&s, "  weight %s = %s\n", w.Name, w.Recipe)
		}
	}
	for _, n := range g.Nodes {
		fmt.Fprintf(&s, "  %s\n", n)
	}
	for _, v := range g.Kept {
		fmt.Fprintf(&s, "  keep %s\n", v.Name)
	}
	fmt.Fprintf(&s, "  return %s\n", g.Output.Name)
	return s.String()
}

// String is the axis as text: "heads 32×128", or "hidden 2048" when its groups are single numbers; "ffn 4096 /2" is one of two shards.
func (a Axis) String() string {
	s := fmt.Sprintf("%s %d", a.Name, a.Count)
	if a.Size != 1 {
		s += fmt.Sprintf("×%d", a.Size)
	}
	if a.Shards > 0 {
		s += fmt.Sprintf(" /%d", a.Shards)
	}
	return s
}

// String is the node as one line of the graph's text.
func (n *Node) String() string {
	var s strings.Builder
	for i, v := range n.Out {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(v.Name)
		if v.Cache == nil {
			fmt.Fprintf(&s, " [%s, %s] %s", v.Rows, v.Axis, v.Type)
		}
		if v.Partial {
			s.WriteString(" partial")
		}
	}
	fmt.Fprintf(&s, " = %s(", n.Op.Name())
	for i, v := range n.In {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(v.Name)
	}
	s.WriteByte(')')
	if a := n.Op.Attrs(); a != "" {
		fmt.Fprintf(&s, " {%s}", a)
	}
	for _, w := range n.Weights {
		fmt.Fprintf(&s, "  %s", w)
	}
	return s.String()
}

// String is the weight's name, shape and format.
func (w *Weight) String() string {
	if w.Slots != nil {
		return fmt.Sprintf("%s [%s, %s] %d slots of rank %d", w.Name, w.Out, w.In, w.Slots.Count, w.Slots.Rank)
	}
	if w.Matrices() > 1 {
		return fmt.Sprintf("%s [%s, %s, %s] %s", w.Name, w.Stack, w.Out, w.In, w.Format)
	}
	return fmt.Sprintf("%s [%s, %s] %s", w.Name, w.Out, w.In, w.Format)
}

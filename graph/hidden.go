package graph

// Hidden says that x, normalised and before the output matrix, is what an embedding of the text is made of. It is kept
// until the end of the step, so that it can be read beside the logits or without them.
func (b *Builder) Hidden(x *Value) { b.g.Hidden = x }

// HiddenOfAll is the graph with the hidden states of every token, [tokens, hidden] in place of [logits, hidden]: what
// lies between SelectRows and them moves before SelectRows. The logits are the same, since rows are computed by themselves; the
// norm of the rows not selected is the price. A mean over a text's tokens needs it.
func HiddenOfAll(g *Graph) (*Graph, error) {
	return Rewrite(g, func(r *Rewriter, n *Node) bool {
		_, selects := n.Op.(SelectRows)
		switch {
		case selects:
			r.by[n.Out[0]] = r.Of(n.In)[0]
		case g.Hidden != nil && n == g.Hidden.From:
			all := r.Add(n.At, n.Out[0].Name, n.Op, r.Of(n.In), n.Weights)
			r.b.g.Hidden = all[0]
			r.by[n.Out[0]] = r.Add(n.At, "selected", SelectRows{}, all, nil)[0]
		default:
			return false
		}
		return true
	})
}

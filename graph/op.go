package graph

// Op is one kind of operation with its attributes. An op's file holds all there is to say about it: the shapes it
// accepts and makes, the least work it does, and, for a fused op, the ops it stands for.
type Op interface {
	// Name is the op's name in the graph's text, "RMSNorm".
	Name() string
	// Attrs is the op's attributes in the graph's text, "" when it has none.
	Attrs() string
	// Infer checks the node's inputs and weights and returns what the node makes; names and ids are the caller's.
	Infer(n *Node) ([]Value, error)
	// Work is the least the node must do in a step of this size.
	Work(n *Node, s *Step) Work
	// Unfused is the same computation in simpler ops, given the builder and the node's inputs; nil for an op that
	// is no fusion.
	Unfused(b *Builder, n *Node, in []*Value) []*Value
}

// simple is embedded by ops that are not fusions of others.
type simple struct{}

// Unfused is nil: there is nothing simpler.
func (simple) Unfused(*Builder, *Node, []*Value) []*Value { return nil }

// Work is what an operation must at least do: its arithmetic, and its traffic when every input is read once and every
// output written once. It is a lower bound: a measured figure never goes under it.
type Work struct {
	FLOPs       int64 // additions and multiplications; a fused multiply-add is two; exp, tanh and the like one each
	WeightBytes int64 // read
	CacheRead   int64 // bytes of cache rows read
	CacheWrite  int64 // bytes of cache rows written
	ValueRead   int64 // bytes of activations read
	ValueWrite  int64 // bytes of activations written
	LinkBytes   int64 // bytes sent to other devices
	Messages    int64 // that they are sent in, one after the other
}

// Bytes is all the traffic of the device's own memory.
func (w Work) Bytes() int64 {
	return w.WeightBytes + w.CacheRead + w.CacheWrite + w.ValueRead + w.ValueWrite
}

// Plus is the sum of two pieces of work.
func (w Work) Plus(o Work) Work {
	return Work{
		FLOPs:       w.FLOPs + o.FLOPs,
		WeightBytes: w.WeightBytes + o.WeightBytes,
		CacheRead:   w.CacheRead + o.CacheRead,
		CacheWrite:  w.CacheWrite + o.CacheWrite,
		ValueRead:   w.ValueRead + o.ValueRead,
		ValueWrite:  w.ValueWrite + o.ValueWrite,
		LinkBytes:   w.LinkBytes + o.LinkBytes,
		Messages:    w.Messages + o.Messages,
	}
}

// Work is the sum over the graph's nodes.
func (g *Graph) Work(s *Step) Work {
	var sum Work
	for _, n := range g.Nodes {
		sum = sum.Plus(n.Op.Work(n, g.StepOf(n, s)))
	}
	return sum
}

// StepOf is what of a step a node's device has: all of it or, where devices divide its rows, an equal share. Where a step is one device's, the first makes the logits of all.
func (g *Graph) StepOf(n *Node, s *Step) *Step {
	if q := g.Sequence; q.Ranks < 2 || n.Wide() != q.Own {
		return s
	}
	share := *s
	if g.Sequence.Own {
		share.Logits *= g.Sequence.Ranks
	} else {
		share.Devices = g.Sequence.Ranks
	}
	return &share
}

// traffic is the Work of a node that reads each of its matrices and whole weights once and writes each output once.
func traffic(n *Node, s *Step, flops int64) Work {
	w := Work{FLOPs: flops}
	for _, v := range n.In {
		if v.Cache == nil {
			w.ValueRead += int64(s.Rows(v.Rows)) * v.RowBytes()
		}
	}
	for _, v := range n.Out {
		if v.Cache == nil {
			w.ValueWrite += int64(s.Rows(v.Rows)) * v.RowBytes()
		}
	}
	for _, t := range n.Weights {
		w.WeightBytes += t.Bytes()
	}
	return w
}

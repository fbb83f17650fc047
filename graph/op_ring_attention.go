package graph

import "fmt"

// AttentionOf is how a node of attention to all keys, or to those of one device, attends.
func AttentionOf(n *Node) (o Attention, ok bool) {
	switch o := n.Op.(type) {
	case Attention:
		return o, true
	case PartialAttention:
		return o.Attention, true
	case RingAttention:
		return o.Attention, true
	}
	return o, false
}

// PartialAttention is Attention over those of a sequence's keys that one device has, to be merged with what others make of theirs: behind the numbers of a head stands the
// logarithm of the sum of the exponentials of its scores, minus infinity where it sees no key.
type PartialAttention struct{ Attention }

// Name implements Op.
func (PartialAttention) Name() string { return "PartialAttention" }

// Attrs implements Op.
func (o PartialAttention) Attrs() string { return o.Attention.Attrs() }

// Infer implements Op: q [tokens, heads × key size], cache, sinks? [1, heads] → [tokens, heads × (value size + 1)] f32.
func (o PartialAttention) Infer(n *Node) ([]Value, error) {
	v, err := o.Attention.Infer(n)
	if err != nil {
		return nil, err
	}
	v[0].Axis.Size++
	v[0].Type = F32 // as exact as sums are
	return v, nil
}

// Work implements Op: that of Attention, and a logarithm and a sum for each head.
func (o PartialAttention) Work(n *Node, s *Step) Work {
	w := o.Attention.Work(n, s)
	w.FLOPs += 2 * int64(s.Tokens()) * int64(n.In[0].Axis.Count)
	return w
}

// RingAttention is Attention where devices divide the rows of steps, and keys and values by tokens. Of many new rows each device keeps the queries, while keys and values
// pass from device to device, those of the next while it attends to the ones it has (Ring Attention; Liu et al., arXiv:2310.01889). Of few new rows every device attends with the queries
// of all to the keys it has, and sends the others what that makes of their rows (context-parallel decoding). Whichever sends fewer bytes is taken. Results are merged by
// the logarithms of their sums.
type RingAttention struct {
	Attention
	Ranks int
}

// Name implements Op.
func (RingAttention) Name() string { return "RingAttention" }

// Attrs implements Op.
func (o RingAttention) Attrs() string {
	return fmt.Sprintf("%d ranks, %s", o.Ranks, o.Attention.Attrs())
}

// Infer implements Op: as Attention.
func (o RingAttention) Infer(n *Node) ([]Value, error) {
	if o.Ranks < 2 {
		return nil, fmt.Errorf("a ring of %d ranks; 2 or more are wanted", o.Ranks)
	}
	return o.Attention.Infer(n)
}

// Work implements Op: s is an equal share of the step.
func (o RingAttention) Work(n *Node, s *Step) Work {
	keys, queries := o.PassKeys(n, s), o.PassQueries(n, s)
	if queries.LinkBytes < keys.LinkBytes {
		return queries
	}
	return keys
}

// PassKeys is Work where keys and values go round.
func (o RingAttention) PassKeys(n *Node, s *Step) Work {
	w := o.merging(n, s)
	w.Messages = int64(o.Ranks - 1)
	w.LinkBytes = w.Messages * w.CacheRead
	w.CacheRead *= int64(o.Ranks)
	return w
}

// PassQueries is Work where every device attends with the queries of all.
func (o RingAttention) PassQueries(n *Node, s *Step) Work {
	w := o.merging(n, s)
	w.Messages = 2 * int64(o.Ranks-1)
	w.LinkBytes = int64(o.Ranks-1) * int64(s.Tokens()) * o.QueryBytes(n)
	return w
}

// QueryBytes is what is sent to a device and back for a row.
func (o RingAttention) QueryBytes(n *Node) int64 {
	q, v := n.In[0], n.Out[0]
	return q.RowBytes() + v.RowBytes() + v.Type.RowBytes(v.Axis.Count)
}

// merging is the Work of Attention to all keys, and of merging as many results as there are devices.
func (o RingAttention) merging(n *Node, s *Step) Work {
	w := o.Attention.Work(n, s)
	v := n.Out[0].Axis
	w.FLOPs += int64(s.Tokens()) * int64((o.Ranks-1)*v.Count*(3*v.Size+6)) // maximum, exponentials, sum, logarithm; two products and a sum of each number
	return w
}

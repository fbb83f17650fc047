package graph

import "fmt"

// Collectives are what the devices of a group do together: each runs a graph of its own with the same collective nodes in the same
// order. Pass partition inserts them. Their costs are those of rings and of direct messages over one link for each device.

// AllReduce sums the Partial values of Ranks devices; each gets the sum.
type AllReduce struct {
	simple
	Ranks int
}

// Name implements Op.
func (AllReduce) Name() string { return "AllReduce" }

// Attrs implements Op.
func (o AllReduce) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [rows, axis] partial → [rows, axis].
func (o AllReduce) Infer(n *Node) ([]Value, error) {
	if err := collective(n, o.Ranks); err != nil {
		return nil, err
	}
	if !n.In[0].Partial {
		return nil, fmt.Errorf("%s is a whole sum already", n.In[0].Name)
	}
	return []Value{like(n.In[0])}, nil
}

// Work implements Op: a ring of n devices sends 2(n-1) messages of an n-th of the value (Patarasuk and Yuan, JPDC 2009), and each device
// adds (n-1)/n of its numbers.
func (o AllReduce) Work(n *Node, s *Step) Work {
	rows, ranks := int64(s.Rows(n.In[0].Rows)), int64(o.Ranks)
	w := traffic(n, s, rows*ceilDiv((ranks-1)*int64(n.In[0].Axis.Len()), ranks))
	w.LinkBytes, w.Messages = rows*ceilDiv(2*(ranks-1)*n.In[0].RowBytes(), ranks), 2*(ranks-1)
	return w
}

// AllGather gives every device the columns of all Ranks shards of a value, in the order of ranks. Columns beyond Axis, which is the whole
// one, are padding and dropped.
type AllGather struct {
	simple
	Ranks int
	Axis  Axis
}

// Name implements Op.
func (AllGather) Name() string { return "AllGather" }

// Attrs implements Op.
func (o AllGather) Attrs() string { return fmt.Sprintf("%d ranks", o.Ranks) }

// Infer implements Op: [rows, axis /ranks] → [rows, axis].
func (o AllGather) Infer(n *Node) ([]Value, error) {
	if err := collective(n, o.Ranks); err != nil {
		return nil, err
	}
	x := n.In[0]
	if x.Axis.Shards != o.Ranks || o.Axis.Shards > 0 || x.Axis.Len()*o.Ranks < o.Axis.Len() {
		return nil, fmt.Errorf("%s is %s, of which %d do not make %s", x.Name, x.Axis, o.Ranks, o.Axis)
	}
	return []Value{{Rows: x.Rows, Axis: o.Axis, Type: x.Type}}, nil
}

// Work implements Op: a ring of n devices sends n-1 messages of a shard each.
func (o AllGather) Work(n *Node, s *Step) Work {
	w := traffic(n, s, 0)
	w.Messages = int64(o.Ranks - 1)
	w.LinkBytes = w.Messages * int64(s.Rows(n.In[0].Rows)) * n.In[0].RowBytes()
	return w
}

// Send passes a value on to a later pipeline stage.
type Send struct {
	simple
	To int // stage
}

// Name implements Op.
func (Send) Name() string { return "Send" }

// Attrs implements Op.
func (o Send) Attrs() string { return fmt.Sprintf("to stage %d", o.To) }

// Infer implements Op: [rows, axis] → [rows, axis], what was sent.
func (o Send) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	return []Value{like(n.In[0])}, matrix(n.In[0])
}

// Work implements Op: what is sent need not be written.
func (Send) Work(n *Node, s *Step) Work {
	bytes := int64(s.Rows(n.In[0].Rows)) * n.In[0].RowBytes()
	return Work{ValueRead: bytes, LinkBytes: bytes, Messages: 1}
}

// Recv is a value that an earlier pipeline stage sends.
type Recv struct {
	simple
	From int // stage
	Rows Rows
	Axis Axis
	Type Type
}

// Name implements Op.
func (Recv) Name() string { return "Recv" }

// Attrs implements Op.
func (o Recv) Attrs() string { return fmt.Sprintf("from stage %d", o.From) }

// Infer implements Op: () → [rows, axis].
func (o Recv) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 0, 0, 0); err != nil {
		return nil, err
	}
	return []Value{{Rows: o.Rows, Axis: o.Axis, Type: o.Type}}, nil
}

// Work implements Op: the bytes go over the link of the device that sends them.
func (Recv) Work(n *Node, s *Step) Work { return traffic(n, s, 0) }

// collective checks the input of an op that Ranks devices run together.
func collective(n *Node, ranks int) error {
	if err := arity(n, 1, 0, 0); err != nil {
		return err
	}
	if ranks < 2 {
		return fmt.Errorf("%d ranks; a collective takes 2 or more", ranks)
	}
	return matrix(n.In[0])
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

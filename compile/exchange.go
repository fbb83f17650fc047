package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
)

// exchange is a node in which devices that divide rows give each other some, or columns of them.
type exchange struct {
	node     *graph.Node
	in, out  backend.Buffer
	to, from [][]float32 // what is sent to each device, and what each sends
	made     []float32   // the result
}

// String implements backend.Launch.
func (x *exchange) String() string { return hostText(x.node) }

// isExchange tells the ops of an exchange.
func isExchange(op graph.Op) bool {
	switch op.(type) {
	case graph.GatherRows, graph.OwnRows, graph.GatherSelected, graph.ToHeads, graph.FromHeads:
		return true
	}
	return false
}

// newExchange makes the memory of an exchange.
func (p *Program) newExchange(n *graph.Node) (*exchange, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, p.cannotExchange(n)
	}
	return &exchange{node: n, in: p.where[n.In[0]], out: p.where[n.Out[0]], to: make([][]float32, p.seq.Ranks), from: make([][]float32, p.seq.Ranks)}, nil
}

// run exchanges a step's rows; b is the whole batch.
func (x *exchange) run(p *Program, b *backend.Batch) error {
	n, s := x.node, p.seq
	all, own := len(b.Tokens), len(s.rows[s.Rank])
	have := own
	if n.In[0].Rows == graph.AllTokens {
		have = all
	}
	read := grown(&s.read, have*n.In[0].Axis.Len())
	x.made = grown(&s.made, max(all, len(b.LogitsIndices))*n.Out[0].Axis.Len())
	if have > 0 {
		if err := p.dev.Read(read, n.In[0], x.in, 0, have); err != nil {
			return err
		}
	}
	rows, err := x.swap(s, b, read)
	if err != nil || rows == 0 {
		return err
	}
	return p.dev.(backend.Writer).Write(n.Out[0], x.out, x.made[:rows*n.Out[0].Axis.Len()], rows)
}

// swap makes the node's result of its input and says how many rows it has.
func (x *exchange) swap(s *sequence, b *backend.Batch, read []float32) (rows int, err error) {
	n := x.node
	all, own := len(b.Tokens), s.rows[s.Rank]
	in, out := n.In[0].Axis.Len(), n.Out[0].Axis.Len()
	switch o := n.Op.(type) {
	case graph.OwnRows:
		gatherRows(x.made, read, own, in)
		return len(own), nil
	case graph.GatherRows:
		x.parts(s, func(int) int { return 0 }, func(i int) int { return len(s.rows[i]) * in })
		for i := range x.to {
			x.to[i] = read
		}
		if err := comm.AllToAll(s.peers, x.to, x.from); err != nil {
			return 0, err
		}
		for i, part := range x.from {
			scatterRows(x.made, part, s.rows[i], in)
		}
		return all, nil
	case graph.GatherSelected:
		return x.selected(s, b, read)
	case graph.ToHeads:
		return all, x.toHeads(s, o, read)
	case graph.FromHeads:
		return len(own), x.fromHeads(s, read, in, out)
	}
	return 0, fmt.Errorf("compile: %s is no exchange of rows", n)
}

// parts lays out what is sent to each device, and what each sends.
func (x *exchange) parts(s *sequence, to, from func(i int) int) {
	out, in := 0, 0
	for i := range x.to {
		out, in = out+to(i), in+from(i)
	}
	sent, got := grown(&s.sent, out), grown(&s.got, in)
	for i := range x.to {
		n, m := to(i), from(i)
		x.to[i], sent = sent[:n:n], sent[n:]
		x.from[i], got = got[:m:m], got[m:]
	}
}

// selected brings the rows whose logits are wanted to the first device.
func (x *exchange) selected(s *sequence, b *backend.Batch, read []float32) (int, error) {
	width := x.node.In[0].Axis.Len()
	place := make([]int32, len(b.Tokens)) // of each row among its device's
	owner := make([]int32, len(b.Tokens))
	for i, rows := range s.rows {
		for k, r := range rows {
			place[r], owner[r] = int32(k), int32(i)
		}
	}
	wanted := make([][]int32, s.Ranks) // of each device: which of its rows, and where they go
	goes := make([][]int32, s.Ranks)
	for i, r := range b.LogitsIndices {
		at := owner[r]
		wanted[at], goes[at] = append(wanted[at], place[r]), append(goes[at], int32(i))
	}
	mine := len(wanted[s.Rank]) * width
	x.parts(s, func(i int) int {
		if i == 0 {
			return mine
		}
		return 0
	}, func(i int) int {
		if s.Rank == 0 {
			return len(wanted[i]) * width
		}
		return 0
	})
	gatherRows(x.to[0], read, wanted[s.Rank], width)
	if err := comm.AllToAll(s.peers, x.to, x.from); err != nil || s.Rank > 0 {
		return 0, err
	}
	for i, part := range x.from {
		scatterRows(x.made, part, goes[i], width)
	}
	return len(b.LogitsIndices), nil
}

// toHeads sends every device its heads of this one's rows.
func (x *exchange) toHeads(s *sequence, o graph.ToHeads, read []float32) error {
	own, width := len(s.rows[s.Rank]), o.Axis.Len()
	whole := x.node.In[0].Axis
	x.parts(s, func(int) int { return own * width }, func(i int) int { return len(s.rows[i]) * width })
	for i := range x.to {
		from, to := o.Piece(whole, i)
		for r := range own {
			copy(x.to[i][r*width:(r+1)*width], read[r*whole.Len()+from:r*whole.Len()+to])
		}
	}
	if err := comm.AllToAll(s.peers, x.to, x.from); err != nil {
		return err
	}
	for i, part := range x.from {
		scatterRows(x.made, part, s.rows[i], width)
	}
	return nil
}

// fromHeads sends every device this one's heads of its rows.
func (x *exchange) fromHeads(s *sequence, read []float32, width, whole int) error {
	own := len(s.rows[s.Rank])
	x.parts(s, func(i int) int { return len(s.rows[i]) * width }, func(int) int { return own * width })
	for i := range x.to {
		gatherRows(x.to[i], read, s.rows[i], width)
	}
	if err := comm.AllToAll(s.peers, x.to, x.from); err != nil {
		return err
	}
	for i, part := range x.from {
		for r := range own {
			copy(x.made[r*whole+i*width:][:width], part[r*width:])
		}
	}
	return nil
}

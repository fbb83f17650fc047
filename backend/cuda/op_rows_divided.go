package cuda

import (
	"errors"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/collective"
	"github.com/ridge-llm/ridge/graph"
)

var _ backend.RowDivider = (*Device)(nil)

// Moves implements backend.Peers: our kernels do; with NCCL, which would have to know the lengths of messages on the host, the host moves rows.
func (p *peers) Moves(n *graph.Node) bool {
	if !p.own {
		return false
	}
	switch o := n.Op.(type) {
	case graph.GatherRows, graph.OwnRows, graph.ToHeads, graph.FromHeads, graph.GatherSelected:
		return true
	case graph.Dispatch:
		return collective.FitsDispatch(n.In[0].Type, n.In[0].Axis.Len(), o.Ranks) == nil
	case graph.Combine:
		return collective.FitsDispatch(n.In[0].Type, n.In[0].Axis.Len(), o.Ranks) == nil
	}
	return false
}

// bindRows binds what GPUs exchange that divide the rows of steps: rows of each, or columns of them.
func (p *peers) bindRows(n *graph.Node, a backend.Args) (func(*step) error, error) {
	v, out, x, y := n.In[0], n.Out[0], at(a.In[0]), at(a.Out[0])
	width, whole, ranks, rank := v.Axis.Len(), out.Axis.Len(), p.group.Ranks, p.group.Rank
	var to, from func(s *step, r int) collective.Block
	mine := func(s *step, _ int) collective.Block { return collective.Block{Rows: s.rowsOf(rank)} }
	theirs := func(s *step, r int) collective.Block {
		return collective.Block{Row: int(s.first[r]), Rows: s.rowsOf(r)}
	}
	columnsOf := func(of func(s *step, r int) collective.Block, column func(r int) int) func(s *step, r int) collective.Block {
		return func(s *step, r int) collective.Block {
			b := of(s, r)
			b.Column = column(r)
			return b
		}
	}
	block, columns, size := width, []int{}, 0
	switch o := n.Op.(type) {
	case graph.OwnRows:
		return func(s *step) error {
			return p.d.stream.Copy(y, x+driver.Ptr(int64(s.first[rank])*v.RowBytes()), int64(s.rowsOf(rank))*v.RowBytes())
		}, p.ranks(o.Ranks)
	case graph.GatherSelected:
		k, err := collective.NewSelected(p.d.loader, v.Type, width)
		return func(s *step) error {
			return k.Launch(p.d.stream, &p.group, x, y, s.LogitsIndices, s.logits, s.first)
		}, errors.Join(err, p.ranks(o.Ranks))
	case graph.GatherRows:
		size, to, from = o.Ranks, mine, theirs
	case graph.ToHeads:
		piece := func(r int) int { first, _ := o.Piece(v.Axis, r); return first }
		for r := range ranks {
			columns = append(columns, piece(r))
		}
		size, block, to, from = o.Ranks, whole, columnsOf(mine, piece), theirs
	case graph.FromHeads:
		piece := func(r int) int { return r * width }
		size, to, from = o.Ranks, theirs, columnsOf(mine, piece)
	}
	if err := p.ranks(size); err != nil {
		return nil, err
	}
	k, err := collective.NewExchange(p.d.loader, v.Type, block, width, whole, columns...)
	if err != nil {
		return nil, err
	}
	blocks := make([]collective.Block, 2*ranks)
	return func(s *step) error {
		most := 0
		for r := range ranks {
			blocks[r], blocks[ranks+r] = to(s, r), from(s, r)
			most = max(most, s.rowsOf(r))
		}
		return k.Launch(p.d.stream, &p.group, x, y, slices.Clip(blocks[:ranks]), blocks[ranks:], most)
	}, nil
}

// rowsOf is how many rows of the step a device has that divides them.
func (s *step) rowsOf(rank int) int { return int(s.first[rank+1] - s.first[rank]) }

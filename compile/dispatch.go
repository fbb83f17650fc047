package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
)

// routes is the way of a step's rows to the devices that hold their experts, which Combine goes back.
type routes struct {
	to, from [][]int32 // of each device: which of this one's rows go there, and which of its own have come from it
}

// dispatch is a node in which rows go to their experts, or come back. The host moves them.
type dispatch struct {
	exchange
	graph.Spread
	shares backend.Buffer // of a Dispatch: those of this device's rows, and arrived those that come
	comes  backend.Buffer
	routes *routes

	row, share, made []float32 // of the largest step

	copies [][]int   // of each expert, where experts are placed by load: its places among those of all devices
	chosen []float32 // shares by these places
}

// isDispatch tells the ops of rows on their way to experts and back.
func isDispatch(op graph.Op) bool {
	switch op.(type) {
	case graph.Dispatch, graph.Combine:
		return true
	}
	return false
}

// newDispatch makes the memory of a Dispatch or a Combine.
func (p *Program) newDispatch(n *graph.Node) (*dispatch, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, p.cannotExchange(n)
	}
	d := &dispatch{exchange: exchange{node: n, in: p.where[n.In[0]], out: p.where[n.Out[0]]}}
	from := n
	switch o := n.Op.(type) {
	case graph.Dispatch:
		d.Spread, d.shares, d.comes = o.Spread, p.where[n.In[1]], p.where[n.Out[1]]
	case graph.Combine:
		d.Spread, from = o.Spread, n.In[1].From
	}
	if p.seq == nil || p.seq.Ranks != d.Ranks {
		return nil, fmt.Errorf("compile: %s is for %d devices that have different rows, and the program is of none of those", n, d.Ranks)
	}
	d.exchange.to, d.exchange.from = make([][]float32, d.Ranks), make([][]float32, d.Ranks)
	if p.routes == nil {
		p.routes = map[*graph.Node]*routes{}
	}
	if d.Placed != nil {
		d.copies = make([][]int, d.Scored())
		for at, e := range d.Placed.Of {
			d.copies[e] = append(d.copies[e], at)
		}
	}
	if p.routes[from] == nil {
		p.routes[from] = &routes{make([][]int32, d.Ranks), make([][]int32, d.Ranks)}
	}
	d.routes = p.routes[from]
	return d, nil
}

// run exchanges a step's rows.
func (d *dispatch) run(p *Program, _ *backend.Batch) error {
	if _, back := d.node.Op.(graph.Combine); back {
		return d.combine(p, p.seq)
	}
	return d.send(p, p.seq)
}

// send brings rows to their experts: first their shares, in which those are 0 of which a row has none.
func (d *dispatch) send(p *Program, s *sequence) error {
	own, held, width, to := len(s.rows[s.Rank]), d.Held(), d.node.In[0].Axis.Len(), p.dev.(backend.Writer)
	x, shares := grown(&d.row, own*width), grown(&d.share, own*d.Scored())
	if own > 0 {
		if err := p.dev.Read(x, d.node.In[0], d.in, 0, own); err != nil {
			return err
		}
		if err := p.dev.Read(shares, d.node.In[1], d.shares, 0, own); err != nil {
			return err
		}
	}
	shares = d.placed(shares, s.Rank)
	d.parts(s, func(int) int { return own * held }, func(i int) int { return len(s.rows[i]) * held })
	for i := range d.exchange.to {
		for r := range own {
			copy(d.exchange.to[i][r*held:(r+1)*held], shares[r*d.Experts+d.First(i):])
		}
		d.routes.to[i] = needed(d.routes.to[i][:0], d.exchange.to[i], held)
	}
	if err := comm.AllToAll(s.peers, d.exchange.to, d.exchange.from); err != nil {
		return err
	}
	arrived := 0
	for i, of := range d.exchange.from {
		d.routes.from[i] = needed(d.routes.from[i][:0], of, held)
		arrived += len(d.routes.from[i])
	}
	come := grown(&d.made, arrived*d.Experts)
	clear(come)
	at := come
	for i, of := range d.exchange.from {
		for _, r := range d.routes.from[i] {
			copy(at[d.First(s.Rank):], of[int(r)*held:(int(r)+1)*held])
			at = at[d.Experts:]
		}
	}
	d.parts(s, func(i int) int { return len(d.routes.to[i]) * width }, func(i int) int { return len(d.routes.from[i]) * width })
	for i := range d.exchange.to {
		gatherRows(d.exchange.to[i], x, d.routes.to[i], width)
	}
	if err := comm.AllToAll(s.peers, d.exchange.to, d.exchange.from); err != nil {
		return err
	}
	s.arrive(arrived)
	if arrived == 0 {
		return nil
	}
	if err := to.Write(d.node.Out[1], d.comes, come, arrived); err != nil {
		return err
	}
	return to.Write(d.node.Out[0], d.out, s.got[:arrived*width], arrived)
}

// placed makes shares of experts those of their places on all devices. Of an expert that is on several, a row has the one on its own rank, if there is one, or else another one than the rows beside it: devices with
// the same rows choose alike.
func (d *dispatch) placed(shares []float32, rank int) []float32 {
	if d.Placed == nil {
		return shares
	}
	scored, each := d.Scored(), d.Held()*d.Split // places of one rank
	rows := len(shares) / scored
	made := grown(&d.chosen, rows*d.Experts)
	clear(made)
	for r := range rows {
		for e, x := range shares[r*scored : (r+1)*scored] {
			if x == 0 {
				continue
			}
			at := d.copies[e][r%len(d.copies[e])]
			for _, own := range d.copies[e] {
				if own/each == rank {
					at = own
					break
				}
			}
			made[r*d.Experts+at] = x
		}
	}
	return made
}

// needed appends the numbers of the rows that have a share in any of a device's experts.
func needed(rows []int32, shares []float32, held int) []int32 {
	for r := 0; len(shares) > 0; r, shares = r+1, shares[held:] {
		for _, x := range shares[:held] {
			if x != 0 {
				rows = append(rows, int32(r))
				break
			}
		}
	}
	return rows
}

// combine brings back what experts have made of rows.
func (d *dispatch) combine(p *Program, s *sequence) error {
	own, arrived, width := len(s.rows[s.Rank]), len(s.arrived.Tokens), d.node.In[0].Axis.Len()
	d.parts(s, func(i int) int { return len(d.routes.from[i]) * width }, func(i int) int { return len(d.routes.to[i]) * width })
	if arrived > 0 { // in the order in which they came
		if err := p.dev.Read(s.sent[:arrived*width], d.node.In[0], d.in, 0, arrived); err != nil {
			return err
		}
	}
	if err := comm.AllToAll(s.peers, d.exchange.to, d.exchange.from); err != nil || own == 0 {
		return err
	}
	sum := grown(&d.made, own*width)
	clear(sum)
	for i, part := range d.exchange.from { // in the order of ranks
		for _, r := range d.routes.to[i] {
			row := sum[int(r)*width : (int(r)+1)*width]
			for k, v := range part[:width] {
				row[k] += v
			}
			part = part[width:]
		}
	}
	return p.dev.(backend.Writer).Write(d.node.Out[0], d.out, sum, own)
}

// arrive makes the batch of so many rows that have come to this device's experts. They are of no sequence here: experts look at rows alone.
func (s *sequence) arrive(rows int) {
	a := &s.arrived
	a.Reset(len(s.local.Tables), 0)
	for r := range rows {
		a.Tokens, a.Positions = append(a.Tokens, 0), append(a.Positions, int32(r))
	}
	if rows > 0 {
		a.QStart, a.KVLen, a.RopeLen = append(a.QStart, int32(rows)), append(a.KVLen, int32(rows)), append(a.RopeLen, int32(rows))
	}
}

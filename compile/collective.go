package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// Ranks is what a program of one of several devices exchanges numbers through: with the devices that share its layers, and with those
// of the same tensor rank in the other pipeline stages.
type Ranks struct {
	Tensor, Pipeline comm.Communicator
	Sequence         comm.Communicator // devices that divide the rows of steps

	// Devices that exchange numbers by themselves: see join.
	tensor, pipeline, sequence backend.Peers
	hosted                     [pass.Exchanges]bool // the host moves what devices of the group exchange: they are of several backends, or cannot do all of it
}

// Set says through which group something is exchanged.
func (r *Ranks) Set(e pass.Exchange, group comm.Communicator) {
	switch e {
	case pass.OfTensor:
		r.Tensor = group
	case pass.OfPipeline:
		r.Pipeline = group
	case pass.OfSequence:
		r.Sequence = group
	}
}

// segment is launches that the device runs without the others, and what it does with them behind that, if there is anything.
type segment struct {
	launches []backend.Launch
	rows     rowsOf // that they compute
	wide     []bool // not nil: the device computes own rows and those of all in one go, and this says which each launch is of: rows that have come to experts are among those of all
	then     together
}

// rowsOf says which rows of a step launches compute where devices divide them.
type rowsOf uint8

const (
	ownRows     rowsOf = iota // of this device
	allRows                   // of all devices, or those of logits
	arrivedRows               // that have come to this device's experts
)

// together is a node that several devices compute together.
type together interface {
	backend.Launch
	run(p *Program, b *backend.Batch) error
}

// collective is a node that several devices compute together. The host moves the numbers: it reads the device's value, exchanges it and
// writes the result. Backends have no kernels of their own for it.
type collective struct {
	node    *graph.Node
	in, out backend.Buffer
}

// String implements backend.Launch.
func (c *collective) String() string { return hostText(c.node) }

func hostText(n *graph.Node) string { return "host " + n.Op.Name() + " " + n.Out[0].Name }

// isCollective tells the ops that devices compute together.
func isCollective(op graph.Op) bool {
	switch op.(type) {
	case graph.AllReduce, graph.AllGather, graph.Send, graph.Recv:
		return true
	}
	if reduces(op) {
		return true
	}
	if _, ok := op.(graph.CacheShares); ok {
		return true
	}
	return isExchange(op) || isDispatch(op) || isRing(op)
}

// reduces tells the fused op that begins with an all-reduce. The host does not compute it.
func reduces(op graph.Op) bool {
	o, ok := op.(*graph.Fused)
	return ok && o.Kind == graph.AllReduceAddNorm
}

// together makes what runs a node that several devices compute together.
func (p *Program) together(n *graph.Node) (together, error) {
	switch {
	case isExchange(n.Op):
		return p.newExchange(n)
	case isDispatch(n.Op):
		return p.newDispatch(n)
	case isRing(n.Op):
		return p.newRing(n)
	}
	if _, ok := n.Op.(graph.CacheShares); ok {
		return p.newSharesOfCache(n)
	}
	return p.newCollective(n)
}

func (p *Program) cannotExchange(n *graph.Node) error {
	return fmt.Errorf("compile: device %s cannot take part in %s: the host cannot write its activations", p.dev.Info().Name, n)
}

// moved is the host's memory for what its collectives move, one after the other: this rank's rows, and those of all ranks. It is enough for the largest step before the first one.
type moved struct{ own, all []float32 }

// newCollective checks that this program can take part in a collective.
func (p *Program) newCollective(n *graph.Node) (*collective, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, p.cannotExchange(n)
	}
	c := &collective{node: n, out: p.where[n.Out[0]]}
	v, peers, ranks := n.Out[0], p.ranks.Tensor, 0
	if len(n.In) > 0 {
		v, c.in = n.In[0], p.where[n.In[0]]
	}
	rows := p.limits.Rows(v.Rows)
	own := grown(&p.moved.own, rows*v.Axis.Len())
	switch o := n.Op.(type) {
	case graph.AllReduce:
		ranks = o.Ranks
	case graph.AllGather:
		ranks = o.Ranks
		grown(&p.moved.all, ranks*len(own)+rows*o.Axis.Len())
	case graph.Send, graph.Recv:
		peers = p.ranks.Pipeline
	}
	if peers == nil || ranks > 0 && ranks != peers.Size() {
		return nil, fmt.Errorf("compile: %s is for several devices, and the program has no group of them", n)
	}
	return c, nil
}

// run exchanges a step's rows.
func (c *collective) run(p *Program, b *backend.Batch) error {
	n := c.node
	if p.seq != nil && !n.Wide() {
		b = &p.seq.local
	}
	rows, width := b.Rows(n.Out[0].Rows), n.Out[0].Axis.Len()
	if len(n.In) > 0 {
		width = n.In[0].Axis.Len()
	}
	own := grown(&p.moved.own, rows*width)
	if len(n.In) > 0 {
		if err := p.dev.Read(own, n.In[0], c.in, 0, rows); err != nil {
			return err
		}
	}
	result := own
	switch o := n.Op.(type) {
	case graph.AllReduce:
		if err := p.ranks.Tensor.AllReduce(own); err != nil {
			return err
		}
	case graph.AllGather:
		all := grown(&p.moved.all, o.Ranks*len(own)+rows*o.Axis.Len())
		shards := all[:o.Ranks*len(own)]
		if err := p.ranks.Tensor.AllGather(shards, own); err != nil {
			return err
		}
		result = all[o.Ranks*len(own):]
		joinColumns(result, shards, rows, width, o.Axis.Len())
	case graph.Send:
		return p.ranks.Pipeline.Send(o.To, own) // no later node of this stage reads it
	case graph.Recv:
		if err := p.ranks.Pipeline.Recv(o.From, own); err != nil {
			return err
		}
	}
	return p.dev.(backend.Writer).Write(n.Out[0], c.out, result, rows)
}

// joinColumns puts the columns of every rank's rows, width numbers each, side by side in rows of whole numbers. What is beyond is padding.
func joinColumns(dst, shards []float32, rows, width, whole int) {
	for first := 0; first < whole; first += width {
		shard := shards[first*rows:]
		for r := range rows {
			copy(dst[r*whole+first:(r+1)*whole], shard[r*width:(r+1)*width])
		}
	}
}

// segments cuts launches where devices compute together, and where rows of the device's own and of all follow each other. rows says which each computes.
func segments(launches []backend.Launch, rows []rowsOf) []segment {
	var all []segment
	from := 0
	for i, l := range launches {
		then, ok := l.(together)
		switch {
		case ok:
			all, from = append(all, segment{launches: launches[from:i:i], rows: rows[from], then: then}), i+1
		case from < i && rows[i] != rows[from]:
			all, from = append(all, segment{launches: launches[from:i:i], rows: rows[from]}), i
		}
	}
	if from < len(launches) {
		all = append(all, segment{launches: launches[from:], rows: rows[from]})
	}
	return all
}

// run computes a step segment by segment. Where devices divide rows, this one has a batch of its own rows, which may be none.
func (p *Program) run(all []segment, b *backend.Batch) error {
	batches := [...]*backend.Batch{b, b, b}
	if p.seq != nil {
		p.seq.divide(b)
		batches = [...]*backend.Batch{ownRows: &p.seq.local, allRows: b, arrivedRows: &p.seq.arrived}
	}
	for _, s := range all {
		rows := batches[s.rows]
		if s.wide != nil {
			whole, logits := p.seq.whole(b)
			if err := p.dev.(backend.RowDivider).RunDivided(s.launches, s.wide, whole, batches[ownRows], backend.Division{First: p.seq.first, Logits: logits}); err != nil {
				return err
			}
			continue
		}
		if len(s.launches) > 0 && len(rows.Tokens) > 0 {
			if err := p.dev.Run(s.launches, rows); err != nil {
				return err
			}
		}
		if s.then == nil {
			continue
		}
		if err := s.then.run(p, b); err != nil {
			return fmt.Errorf("compile: %s: %w", s.then, err)
		}
	}
	return nil
}

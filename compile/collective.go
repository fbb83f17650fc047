package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
)

// Ranks is what a program of one of several devices exchanges numbers through: with the devices that share its layers, and with those
// of the same tensor rank in the other pipeline stages.
type Ranks struct{ Tensor, Pipeline comm.Communicator }

// segment is launches that the device runs without the others, and the collective behind them, if there is one.
type segment struct {
	launches []backend.Launch
	then     *collective
}

// collective is a node that several devices compute together. The host moves the numbers: it reads the device's value, exchanges it and
// writes the result. Backends have no kernels of their own for it.
type collective struct {
	node     *graph.Node
	in, out  backend.Buffer
	own, all []float32 // of the largest step: this rank's rows, and those of all ranks
}

// String implements backend.Launch.
func (c *collective) String() string { return "host " + c.node.Op.Name() + " " + c.node.Out[0].Name }

// isCollective tells the ops that devices compute together.
func isCollective(op graph.Op) bool {
	switch op.(type) {
	case graph.AllReduce, graph.AllGather, graph.AllToAll, graph.Send, graph.Recv:
		return true
	}
	return false
}

// newCollective checks that this program can take part in a collective.
func (p *Program) newCollective(n *graph.Node) (*collective, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, fmt.Errorf("compile: device %s cannot take part in %s: the host cannot write its activations; cpu and ref can", p.dev.Info().Name, n)
	}
	c := &collective{node: n, out: p.where[n.Out[0]]}
	v, peers, ranks := n.Out[0], p.ranks.Tensor, 0
	if len(n.In) > 0 {
		v, c.in = n.In[0], p.where[n.In[0]]
	}
	c.own = make([]float32, p.limits.Rows(v.Rows)*v.Axis.Len())
	switch o := n.Op.(type) {
	case graph.AllReduce:
		ranks = o.Ranks
	case graph.AllGather:
		ranks = o.Ranks
		c.all = make([]float32, ranks*len(c.own)+p.limits.Rows(v.Rows)*o.Axis.Len())
	case graph.Send, graph.Recv:
		peers = p.ranks.Pipeline
	default:
		return nil, fmt.Errorf("compile: %s divides experts over replicas, which can be priced and not run; give --ep at most --tp", n)
	}
	if peers == nil || ranks > 0 && ranks != peers.Size() {
		return nil, fmt.Errorf("compile: %s is for several devices, and the program has no group of them", n)
	}
	return c, nil
}

// run exchanges a step's rows.
func (c *collective) run(p *Program, b *backend.Batch) error {
	n := c.node
	rows := b.Rows(n.Out[0].Rows)
	width := len(c.own) / p.limits.Rows(n.Out[0].Rows)
	own := c.own[:rows*width]
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
		shards := c.all[:o.Ranks*len(own)]
		if err := p.ranks.Tensor.AllGather(shards, own); err != nil {
			return err
		}
		result = c.all[o.Ranks*len(c.own):][:rows*o.Axis.Len()]
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

// segments cuts launches at their collectives.
func segments(launches []backend.Launch) []segment {
	var all []segment
	from := 0
	for i, l := range launches {
		if c, ok := l.(*collective); ok {
			all, from = append(all, segment{launches[from:i:i], c}), i+1
		}
	}
	if from < len(launches) || len(all) == 0 {
		all = append(all, segment{launches: launches[from:]})
	}
	return all
}

// run computes a step segment by segment.
func (p *Program) run(all []segment, b *backend.Batch) error {
	for _, s := range all {
		if len(s.launches) > 0 {
			if err := p.dev.Run(s.launches, b); err != nil {
				return err
			}
		}
		if s.then != nil {
			if err := s.then.run(p, b); err != nil {
				return fmt.Errorf("compile: %s: %w", s.then.node.Out[0].Name, err)
			}
		}
	}
	return nil
}

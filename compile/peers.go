package compile

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// join makes the device one of its groups, if it does collectives by itself. All ranks do so at the same time.
func (r *Ranks) join(dev backend.Device) (err error) {
	x, ok := dev.(backend.Exchanger)
	if !ok {
		return nil
	}
	for _, g := range []struct {
		of    pass.Exchange
		comm  comm.Communicator
		peers *backend.Peers
	}{{pass.OfTensor, r.Tensor, &r.tensor}, {pass.OfPipeline, r.Pipeline, &r.pipeline}, {pass.OfSequence, r.Sequence, &r.sequence}} {
		if g.comm == nil || g.comm.Size() == 1 || r.hosted[g.of] {
			continue
		}
		if *g.peers, err = x.Join(g.comm); err != nil {
			return err
		}
	}
	return nil
}

// all is the groups that devices have joined.
func (r *Ranks) all() (peers []backend.Peers) {
	for _, p := range []backend.Peers{r.tensor, r.pipeline, r.sequence} {
		if p != nil {
			peers = append(peers, p)
		}
	}
	return peers
}

// leave has devices leave their groups, all at the same time: some libraries wait for all ranks then.
func leave(all []Ranks) error {
	var errs []error
	var mu sync.Mutex
	var leaving sync.WaitGroup
	for i := range all {
		for _, p := range all[i].all() {
			leaving.Go(func() {
				err := p.Close()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	leaving.Wait()
	return errors.Join(errs...)
}

// of is the group that computes a collective by itself; nil: the host moves the numbers.
func (r *Ranks) of(op graph.Op) backend.Peers {
	switch op.(type) {
	case graph.Send, graph.Recv:
		return r.pipeline
	case graph.AllReduce, graph.AllGather:
		return r.tensor
	}
	if dividesRows(op) {
		if r.hosted[pass.OfSequence] {
			return nil
		}
		return r.sequence
	}
	if reduces(op) {
		return r.tensor
	}
	return nil
}

// dividesRows tells the ops that devices which divide rows exchange by themselves, where they are of all in a graph.
func dividesRows(op graph.Op) bool {
	switch op.(type) {
	case graph.GatherRows, graph.OwnRows, graph.ToHeads, graph.FromHeads, graph.GatherSelected, graph.Dispatch, graph.Combine:
		return true
	}
	return false
}

// hostRows has the host move what devices that divide rows exchange, if they cannot do all of it in a graph.
func (r *Ranks) hostRows(g *graph.Graph, dev backend.Device) {
	_, divides := dev.(backend.RowDivider)
	r.hosted[pass.OfSequence] = r.hosted[pass.OfSequence] || !divides || r.sequence == nil ||
		slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return isRing(n.Op) || dividesRows(n.Op) && !r.sequence.Moves(n) })
}

// FitTo is pass.Layout.Fit for devices of a kind: those that divide rows by themselves do so by Ulysses, unless the layout says how or the model has too few heads for that.
func FitTo(dev backend.Device, l pass.Layout, g *graph.Graph) (pass.Layout, error) {
	if _, ok := dev.(backend.RowDivider); ok && l.Sequence > 1 && l.Method == "" {
		by := l
		by.Method = pass.Ulysses
		if fit, err := by.Fit(g); err == nil {
			return fit, nil
		}
	}
	return l.Fit(g)
}

// Abort ends what the program's device waits for, if it exchanges numbers by itself, with err. Any goroutine may call it.
func (p *Program) Abort(err error) {
	for _, g := range p.ranks.all() {
		g.Abort(err)
	}
}

// collective is the launch of a collective: the device's own, or one of the host.
func (p *Program) collective(n *graph.Node, weights map[*graph.Weight]placed) (l backend.Launch, name string, err error) {
	peers := p.ranks.of(n.Op)
	if peers == nil {
		l, err = p.together(n)
		return l, "host", err
	}
	a := backend.Args{Limits: p.limits}
	if p.seq != nil && p.seq.Own { // there are rows of all devices
		a.Limits = p.seq.all
	}
	for _, v := range n.In {
		a.In = append(a.In, p.buffer(v))
	}
	for _, v := range n.Out {
		a.Out = append(a.Out, p.buffer(v))
	}
	for _, w := range n.Weights {
		a.Weights = append(a.Weights, weights[w].Weight)
	}
	if l, err = peers.Bind(n, a); err != nil {
		return nil, "", fmt.Errorf("compile: %s: %w", n, err)
	}
	return l, "peers", nil
}

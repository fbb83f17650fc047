package compile

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// steps is launches that compute a step, cut at collectives: those of any, and those of a step without adapters, which are a list of
// their own where they are others.
type steps struct{ all, plain []segment }

// of is the launches for a batch.
func (s *steps) of(b *backend.Batch) []segment {
	if len(b.Adapters) == 0 {
		return s.plain
	}
	return s.all
}

// steps makes them of the launches of plans' first nodes. Those of adapters write over what others made: without them the rest is a
// program too.
func (p *Program) steps(with *plan, launches []backend.Launch, without *plan, plain []backend.Launch) steps {
	s := steps{all: p.segments(launches, with.graph.Nodes[:len(launches)])}
	var needed []backend.Launch
	var nodes []*graph.Node
	for i, l := range plain {
		if n := without.graph.Nodes[i]; !graph.IsAdapter(n) {
			needed, nodes = append(needed, l), append(nodes, n)
		}
	}
	if s.plain = s.all; with != without || len(needed) < len(launches) {
		s.plain = p.segments(needed, nodes)
	}
	return s
}

// segments are the launches of nodes: a single one where the device exchanges rows by itself.
func (p *Program) segments(launches []backend.Launch, nodes []*graph.Node) []segment {
	rows := p.rows(nodes)
	if p.ranks.sequence == nil || p.ranks.hosted[pass.OfSequence] {
		return segments(launches, rows)
	}
	s := segment{launches: launches, wide: make([]bool, len(rows))}
	for i, n := range nodes {
		s.wide[i] = rows[i] != ownRows || isDispatch(n.Op)
	}
	return []segment{s}
}

// rows says which rows nodes compute.
func (p *Program) rows(nodes []*graph.Node) []rowsOf {
	rows := make([]rowsOf, len(nodes))
	for i, n := range nodes {
		switch {
		case p.seq != nil && n.Wide():
			rows[i] = allRows
		case n.OfArrived():
			rows[i] = arrivedRows
		}
	}
	return rows
}

// adapterWeights is the device's handles of weights with slots.
func adapterWeights(placed map[*graph.Weight]placed) map[*graph.Weight]backend.Weight {
	all := map[*graph.Weight]backend.Weight{}
	for w, p := range placed {
		if w.Slots != nil {
			all[w] = p.Weight
		}
	}
	return all
}

// Slots implements Runner: in the graph's order.
func (p *Program) Slots() []*graph.Weight {
	var all []*graph.Weight
	for _, w := range p.Graph.Weights {
		if w.Slots != nil {
			all = append(all, w)
		}
	}
	return all
}

// SetAdapter implements Runner.
func (p *Program) SetAdapter(slot int, of func(w *graph.Weight) *graph.LowRank, set func(error)) error {
	loader, ok := p.dev.(backend.AdapterLoader)
	if !ok {
		return fmt.Errorf("compile: device %s computes no adapters", p.dev.Info().Name)
	}
	for _, w := range p.Slots() {
		if err := loader.SetAdapter(p.adapters[w], slot, of(w)); err != nil {
			return fmt.Errorf("compile: adapter of %s: %w", w.Name, err)
		}
	}
	if set != nil {
		loader.AdaptersSet(set)
	}
	return nil
}

// PackAdapter implements Runner.
func (p *Program) PackAdapter(of func(w *graph.Weight) *graph.LowRank, goroutines int) error {
	packer, ok := p.dev.(backend.AdapterPacker)
	if !ok {
		return nil
	}
	var work errgroup.Group
	work.SetLimit(goroutines)
	for _, w := range p.Slots() {
		l := of(w)
		if l == nil {
			continue
		}
		work.Go(func() error {
			if err := packer.PackAdapter(p.adapters[w], l); err != nil {
				return fmt.Errorf("compile: adapter of %s: %w", w.Name, err)
			}
			return nil
		})
	}
	return work.Wait()
}

// SetAdapter implements Runner.
func (x *Group) SetAdapter(slot int, of func(w *graph.Weight) *graph.LowRank, set func(error)) error {
	var each func(error)
	if set != nil {
		var mu sync.Mutex
		left, all := len(x.programs), error(nil)
		each = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			all = errors.Join(all, err)
			if left--; left == 0 {
				set(all)
			}
		}
	}
	return x.all(func(p *Program) error { return p.SetAdapter(slot, of, each) })
}

// PackAdapter implements Runner.
func (x *Group) PackAdapter(of func(w *graph.Weight) *graph.LowRank, goroutines int) error {
	return x.all(func(p *Program) error { return p.PackAdapter(of, goroutines) })
}

// Slots implements Runner.
func (x *Group) Slots() (all []*graph.Weight) {
	for _, p := range x.programs {
		all = append(all, p.Slots()...)
	}
	return all
}

package throughput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// Op is what the launches of one kind took in a step: those with the same kernel and the same weight shape.
type Op struct {
	Kernel   string        `json:"kernel"`
	Shape    string        `json:"shape"`
	Count    int           `json:"launches"`
	Took     time.Duration `json:"ns"`       // all of them together, median over the runs
	Floor    time.Duration `json:"floor_ns"` // the least they could take
	Share    float64       `json:"share"`    // of the step
	Fraction float64       `json:"fraction_of_limit"`
}

// Graph is the one whose nodes are timed.
func (r *Runner) Graph() *graph.Graph { return r.graph }

// Price prices the bench's program by a device's profile.
func (r *Runner) Price(p *price.Profile) (*price.Model, error) {
	return price.New(r.graph, p)
}

// Nodes is how long each node of Graph takes in a test's last step: the median over the runs.
func (r *Runner) Nodes(ctx context.Context, t Test, runs int) ([]time.Duration, error) {
	if r.one == nil {
		return nil, errors.New("throughput: kernels are timed on one device; leave out the layout")
	}
	if err := r.fillCache(ctx, t.Depth, t.Batch); err != nil {
		return nil, err
	}
	steps := r.steps(t)
	last := steps[len(steps)-1]
	nodes := r.graph.Nodes
	took := make([][]time.Duration, len(nodes))
	times := make([]time.Duration, len(nodes))
	for i := range runs + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.fillBatch(last)
		if err := r.one.RunTimed(&r.batch, times); err != nil {
			return nil, err
		}
		for n := range nodes {
			if i > 0 {
				took[n] = append(took[n], times[n])
			}
		}
	}
	medians := make([]time.Duration, len(nodes))
	for i := range nodes {
		slices.Sort(took[i])
		medians[i] = took[i][len(took[i])/2]
	}
	return medians, nil
}

// Ops times every launch of a test's last step, and sums those of a kind.
func (r *Runner) Ops(ctx context.Context, t Test, runs int) ([]Op, error) {
	medians, err := r.Nodes(ctx, t, runs)
	if err != nil {
		return nil, err
	}
	steps := r.steps(t)
	last := steps[len(steps)-1]
	byKind := map[string]*Op{}
	var order []*Op
	var total time.Duration
	for i, n := range r.graph.Nodes {
		key := r.one.Kernel(i) + shape(n)
		if byKind[key] == nil {
			byKind[key] = &Op{Kernel: r.one.Kernel(i), Shape: shape(n)}
			order = append(order, byKind[key])
		}
		o := byKind[key]
		o.Count++
		o.Took += medians[i]
		o.Floor += r.peaks.Floor(n, last)
		total += medians[i]
	}
	ops := make([]Op, 0, len(order))
	for _, o := range order {
		o.Share = float64(o.Took) / float64(max(total, 1))
		o.Fraction = float64(o.Floor) / float64(max(o.Took, 1))
		ops = append(ops, *o)
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return int(b.Took - a.Took) })
	return ops, nil
}

// shape is a node's size: of its weight, or of what it makes.
func shape(n *graph.Node) string {
	if out, in, _, ok := n.Matrix(); ok {
		return fmt.Sprintf("%d×%d", out, in)
	}
	if n.Out[0].Cache != nil {
		return n.Out[0].Cache.K.String()
	}
	return n.Out[0].Axis.String()
}

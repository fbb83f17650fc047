package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// planReport is what plan prints.
type planReport struct {
	Model      string              `json:"model"`
	Parameters int64               `json:"parameters"`
	Active     int64               `json:"active_parameters"` // used by one token
	Workload   *capacity.Workload  `json:"workload,omitempty"`
	SLO        capacity.SLO        `json:"slo"`
	Rows       []planRow           `json:"rows"`
	Batches    []capacity.Estimate `json:"batches,omitempty"` // of the only row, for growing numbers of sequences
}

// planRow is the model in one layout over devices of one kind.
type planRow struct {
	Device     string                   `json:"device"`
	Layout     pass.Layout              `json:"layout"`
	Usable     int64                    `json:"usable_bytes"`
	Memory     *capacity.Memory         `json:"memory,omitempty"`
	Training   *capacity.TrainingMemory `json:"training,omitempty"`
	MaxBatch   int                      `json:"max_batch,omitempty"`
	Tokens     int64                    `json:"cache_tokens,omitempty"` // that the cache has room for
	MaxContext int                      `json:"max_context,omitempty"`
	Best       *capacity.Estimate       `json:"best,omitempty"` // with the batch of the highest rate that fits and meets the SLO
	Why        string                   `json:"why_not,omitempty"`
	setup      *capacity.Setup
	missed     *capacity.Estimate // of one sequence, which fits but is too slow
}

// plan estimates every device in every layout.
func (f *planFlags) plan(ctx context.Context, name string, m *model.Model) (*planReport, error) {
	profiles, err := f.profiles(ctx)
	if err != nil {
		return nil, err
	}
	if f.limits.Context == 0 {
		f.limits.Context = m.Config.Context
	}
	if err := f.limits.Check(); err != nil {
		return nil, err
	}
	r := &planReport{Model: name, SLO: f.promise}
	if !f.train {
		r.Workload = &f.load
	}
	for _, p := range profiles {
		for _, pp := range f.pipeline {
			for _, tp := range f.tensor {
				for _, l := range f.layouts(tp, pp) {
					row, err := f.row(m, p, l, r)
					if err != nil {
						return nil, err
					}
					r.Rows = append(r.Rows, row)
				}
			}
		}
	}
	slices.SortStableFunc(r.Rows, byCost)
	if len(r.Rows) == 1 && r.Rows[0].Best != nil {
		r.Batches = f.batches(r.Rows[0])
	}
	return r, nil
}

// layouts are those of so many devices that share layers and so many stages.
func (f *planFlags) layouts(tp, pp int) (all []pass.Layout) {
	for _, ep := range f.expert {
		for _, sp := range f.sequence {
			l := pass.Layout{Tensor: tp, Pipeline: pp, Data: f.data, Expert: ep}
			if sp > 1 {
				l.Sequence, l.Method = sp, f.method
			}
			all = append(all, l)
		}
	}
	return all
}

// row estimates one layout over devices of one kind. The reason why a layout is impossible is kept in the row.
func (f *planFlags) row(m *model.Model, p *price.Profile, l pass.Layout, r *planReport) (planRow, error) {
	row := planRow{Device: p.Name, Layout: l}
	g, err := f.shape.graph(m, p.ActType())
	if err != nil {
		return row, err
	}
	r.Parameters, r.Active = capacity.Parameters(g)
	if f.train {
		return f.trainingRow(row, p, g)
	}
	o, err := f.shape.passes(p)
	if err != nil {
		return row, err
	}
	o.Adapters = f.loras
	s, err := capacity.New(g, p, l, f.limits, pass.All, o)
	if err != nil {
		row.Why = err.Error()
		return row, nil
	}
	row.setup, row.Usable, row.Memory, row.Layout = s, s.Usable, &s.Memory, s.Layout
	row.Tokens, row.MaxContext, row.MaxBatch = s.CacheTokens(), s.MaxContext(), s.MaxBatch(f.load)
	if m.Config.Encoder {
		row.Why = fmt.Sprintf("%s is an encoder and generates no tokens: ridge roofline prices its steps", m.Arch.Name)
		return row, nil
	}
	if err := s.Fits(1, f.load.Input+f.load.Output); err != nil {
		row.Why = err.Error()
		return row, nil
	}
	best, ok := s.Best(f.load, f.promise)
	if !ok {
		alone := s.Estimate(f.load, 1)
		row.Why, row.missed = f.promise.Missed(alone), &alone
		return row, nil
	}
	row.Best = &best
	return row, nil
}

// trainingRow is the memory of training, and whether it fits.
func (f *planFlags) trainingRow(row planRow, p *price.Profile, g *graph.Graph) (planRow, error) {
	if err := f.training.Check(); err != nil {
		return row, err
	}
	row.Usable = int64(float64(p.Memory().Bytes) * f.limits.Utilization)
	t, err := capacity.TrainingMemoryOf(g, row.Layout, f.training)
	if err != nil {
		row.Why = err.Error()
		return row, nil
	}
	row.Training = &t
	if t.Total() > row.Usable {
		row.Why = "it needs " + size.Text(t.Total()) + " on each " + p.Name + ", " + size.Text(row.Usable) + " of " + size.Text(p.Memory().Bytes) + " usable"
	}
	return row, nil
}

// byCost orders rows: those that meet the SLO first, by cost of a million tokens or, without a price, by tokens per second and device.
func byCost(a, b planRow) int {
	cost := func(r planRow) float64 {
		switch {
		case r.Why != "":
			return math.Inf(1)
		case r.Best == nil:
			return float64(r.Layout.Devices())
		case r.Best.Dollars > 0:
			return r.Best.Dollars
		}
		return 1e9 - r.Best.Rate/float64(r.Layout.Devices())
	}
	return cmp.Compare(cost(a), cost(b))
}

// batches are estimates for the numbers of sequences asked for.
func (f *planFlags) batches(row planRow) []capacity.Estimate {
	sizes := f.batch
	if len(sizes) == 0 {
		most := row.setup.MostUseful(f.load)
		for n := 1; n < most; n *= 2 {
			sizes = append(sizes, n)
		}
		sizes = append(sizes, most)
	}
	var all []capacity.Estimate
	for _, n := range sizes {
		all = append(all, row.setup.Estimate(f.load, n))
	}
	return all
}

// noneMeets is the error that no row meets the SLO, with the row that comes nearest; nil when one does.
func (r *planReport) noneMeets(slo string) error {
	var nearest *planRow
	off := func(row *planRow) float64 { return r.SLO.Off(*row.missed) }
	for i := range r.Rows {
		switch row := &r.Rows[i]; {
		case row.Why == "":
			return nil
		case row.missed != nil && (nearest == nil || off(row) < off(nearest)):
			nearest = row
		}
	}
	if nearest == nil {
		return fmt.Errorf("plan: %s fits no device and layout that was tried", r.Model)
	}
	return fmt.Errorf("plan: nothing meets --slo %s; the nearest is %s %s, with ttft=%sms and itl=%sms for one sequence",
		slo, nearest.Device, nearest.Layout, inMillis(nearest.missed.TTFT), inMillis(nearest.missed.ITL))
}

// errNothingToDraw refuses a plot without a point.
var errNothingToDraw = errors.New("plan: nothing fits, so there is nothing to plot")

package calibrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// runner is a graph compiled for a device, to be timed.
type runner struct {
	prog  *compile.Program
	lim   backend.Limits
	batch backend.Batch
	rnd   *rand.Rand

	stopped func() error // why nothing more is to be timed; nil: go on
}

const pageSize = 16

// newRunner compiles a graph for steps of up to so many tokens and sequences of up to longest each, and no further once ctx has ended.
func newRunner(ctx context.Context, dev backend.Device, g *graph.Graph, tokens, seqs, longest int) (*runner, error) {
	w, err := randomTensors(g)
	if err != nil {
		return nil, err
	}
	lim := backend.Limits{Tokens: tokens, Seqs: seqs, Logits: seqs, PageSize: pageSize, SeqPages: (longest + pageSize - 1) / pageSize}
	lim.Pages = lim.SeqPages * seqs
	for _, w := range g.Weights {
		if w.Slots != nil {
			lim.Adapters = w.Slots.Count
		}
	}
	prog, err := compile.Compile(g, dev, w, lim)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	prog.Warm()
	runtime.GC() // now, and not while a worker is timed
	return &runner{stopped: ctx.Err, prog: prog, lim: lim, rnd: rand.New(rand.NewPCG(3, 4))}, nil
}

// effort bounds the runs of one step: enough for a median, within its share of the calibration's time.
const (
	minRuns = 5
	maxRuns = 40
	effort  = 50 * time.Millisecond
)

// time runs a step until effort is spent and returns the median of every node's times, as samples.
func (r *runner) time(s graph.Step, samples []price.Sample) ([]price.Sample, error) {
	if err := r.stopped(); err != nil {
		return nil, err
	}
	nodes := r.prog.Graph.Nodes
	took := make([][]float64, len(nodes))
	times := make([]time.Duration, len(nodes))
	throughput.FillBatch(&r.batch, r.lim, &s, tableRows, r.rnd)
	start := time.Now()
	for run := 0; run <= maxRuns && (run <= minRuns || time.Since(start) < effort); run++ {
		if err := r.prog.RunTimed(&r.batch, times); err != nil {
			return nil, err
		}
		for i, t := range times {
			if run > 0 { // the first finds caches cold
				took[i] = append(took[i], t.Seconds())
			}
		}
	}
	for i, n := range nodes {
		slices.Sort(took[i])
		samples = append(samples, price.Sample{Node: n, Step: &s, Set: r.set(&s), Seconds: took[i][len(took[i])/2]})
	}
	return samples, nil
}

// set is the working set of repeated steps, in bytes.
func (r *runner) set(s *graph.Step) int64 {
	w := r.prog.Graph.Work(s)
	return w.WeightBytes + w.CacheRead
}

package calibrate

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/bench"
	"github.com/ridge-llm/ridge/price"
)

// ground is a graph compiled for a device, to be timed.
type ground struct {
	prog  *compile.Program
	lim   backend.Limits
	batch backend.Batch
	rnd   *rand.Rand
}

const pageSize = 16

// newGround compiles a graph for steps of up to so many tokens and sequences of up to context each.
func newGround(dev backend.Device, g *graph.Graph, tokens, seqs, context int) (*ground, error) {
	w, err := randomTensors(g)
	if err != nil {
		return nil, err
	}
	lim := backend.Limits{Tokens: tokens, Seqs: seqs, Logits: seqs, PageSize: pageSize, SeqPages: (context + pageSize - 1) / pageSize}
	lim.Pages = lim.SeqPages * seqs
	prog, err := compile.Compile(g, dev, w, lim)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	prog.Warm()
	runtime.GC() // now, and not while a worker is timed
	return &ground{prog: prog, lim: lim, rnd: rand.New(rand.NewPCG(3, 4))}, nil
}

// effort bounds the runs of one step: enough for a median, and not longer than its share of the calibration.
const (
	minRuns = 5
	maxRuns = 40
	effort  = 50 * time.Millisecond
)

// time runs a step until effort is spent and returns the median of every node's times, as samples.
func (g *ground) time(s graph.Step, samples []price.Sample) ([]price.Sample, error) {
	nodes := g.prog.Graph.Nodes
	took := make([][]float64, len(nodes))
	times := make([]time.Duration, len(nodes))
	bench.Lay(&g.batch, g.lim, &s, yardVocab, g.rnd)
	start := time.Now()
	for run := 0; run <= maxRuns && (run <= minRuns || time.Since(start) < effort); run++ {
		if err := g.prog.RunTimed(&g.batch, times); err != nil {
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
		samples = append(samples, price.Sample{Node: n, Step: &s, Set: g.set(&s), Seconds: took[i][len(took[i])/2]})
	}
	return samples, nil
}

// set is what a step of the graph reads again in the next, in bytes.
func (g *ground) set(s *graph.Step) int64 {
	w := g.prog.Graph.Work(s)
	return w.WeightBytes + w.CacheRead
}

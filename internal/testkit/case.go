package testkit

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// Case is one op in one variant: a graph that feeds it random rows, the steps to run, and how far a device may be
// from the reference. The table of cases is what every backend is tested and timed with.
type Case struct {
	Name      string
	Op        string // what it is a case of: graph.Op.Name
	Graph     func(b *graph.Builder) *graph.Value
	Steps     Steps
	Window    int          // of its cache: the batches' tables are rolled; 0: none
	Tolerance float64      // WorstError against the reference, computing in F32
	Fuse      []graph.Kind // what of the graph is fused
	// Vary changes a batch, its table aside, before it is run; nil: nothing.
	Vary func(b *backend.Batch, rnd *rand.Rand)
}

// Attends reports whether it is a case of attention, which is tried with every type of cache.
func (c *Case) Attends() bool {
	return strings.HasSuffix(c.Op, "Attention") || c.Op == string(graph.RoPEKVWrite)
}

const tableVocab = 61

// feed looks random rows of an axis up by token id; each name has its own.
func feed(b *graph.Builder, name string, a graph.Axis) *graph.Value {
	return b.Embed(name, b.Weight(name+"_embd", graph.Axis{Name: "vocab", Count: tableVocab, Size: 1}, a), 0)
}

func axis(name string, count, size int) graph.Axis {
	return graph.Axis{Name: name, Count: count, Size: size}
}

// rowSteps are row counts around every kernel's tile sizes.
func rowSteps() []Steps {
	return []Steps{{{1}}, {{2}}, {{5, 3}}, {{33}}, {{70, 1}}}
}

// perRows is an op with each number of rows.
func perRows(op, name string, tolerance float64, g func(b *graph.Builder) *graph.Value) []Case {
	var all []Case
	for _, steps := range rowSteps() {
		all = append(all, Case{Name: fmt.Sprintf("%s/rows%d", name, LimitsFor(steps, 16).Tokens), Op: op, Graph: g, Steps: steps, Tolerance: tolerance})
	}
	return all
}

// Cases is the table.
func Cases() []Case {
	var all []Case
	all = append(all, linearCases()...)
	all = append(all, roundedCases()...)
	all = append(all, decodedCases()...)
	all = append(all, scaledCases()...)
	all = append(all, outlierCases()...)
	all = append(all, embedCases()...)
	all = append(all, normCases()...)
	all = append(all, ropeCases()...)
	all = append(all, headLinearCases()...)
	all = append(all, pointwiseCases()...)
	all = append(all, choiceCases()...)
	all = append(all, streamCases()...)
	all = append(all, attentionCases()...)
	all = append(all, sinkCases()...)
	all = append(all, partialCases()...)
	all = append(all, maskCases()...)
	all = append(all, bidirectionalCases()...)
	all = append(all, latentCases()...)
	all = append(all, batchCases()...)
	all = append(all, routeCases()...)
	all = append(all, moeCases()...)
	all = append(all, recurrentCases()...)
	all = append(all, fusedCases()...)
	all = append(all, absorbedCases()...)
	all = append(all, loraCases()...)
	all = append(all, latentTreeCases()...)
	all = append(all, largeHeadCases()...)
	return all
}

// Built is a case's graph. cache is the type of keys and values.
func (c Case) Built(act, cache graph.Type) (*graph.Graph, error) {
	b := graph.NewBuilder(c.Name, Lookup, act, cache)
	g, err := b.Finish(c.Graph(b))
	if err != nil || len(c.Fuse) == 0 {
		return g, err
	}
	return c.fuse(g)
}

// Build makes a case's graph, weights, limits and batches.
func (c Case) Build(act, cache graph.Type, seed uint64) (*graph.Graph, Weights, backend.Limits, []*backend.Batch, error) {
	lim := LimitsFor(c.Steps, graph.PageTokens(cache))
	g, err := c.Built(act, cache)
	if err != nil {
		return nil, nil, lim, nil, err
	}
	lim.KeepAll(g)
	w, err := RandomWeights(g, seed)
	return g, w, lim, c.Batches(lim, seed), err
}

// Batches are a case's steps with random tokens. Positions of attention are not the tokens' places in their sequences: they are for
// rotations, and must not decide which keys a row looks at.
func (c Case) Batches(lim backend.Limits, seed uint64) []*backend.Batch {
	batches := Sequence(c.Steps, lim, tableVocab, false, seed)
	for _, b := range batches {
		for r := range b.Positions {
			if c.Op == "Attention" {
				b.Positions[r] = b.Positions[r]*3 + 1000
			}
		}
	}
	if c.Window > 0 {
		Roll(batches, lim, c.Window)
	}
	if c.Vary != nil {
		rnd := rand.New(rand.NewPCG(seed, 3))
		for _, b := range batches {
			c.Vary(b, rnd)
		}
	}
	return batches
}

package quantize

import (
	"context"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/quantize/imatrix"
)

// Importance gathers the importance matrix of a model over a calibration text: for each linear layer of its blocks, by GGUF's names, the sum of
// squares of its inputs' columns; of experts those of the rows that each gets.
func Importance(ctx context.Context, dir *modeldir.Dir, seqs [][]int32, o Options) (*imatrix.Matrix, error) {
	dev, err := device.Open(device.Options{Backend: o.Backend, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	o.Method, o.Grid = RTN, Grid{Bits: 8}
	q, err := newJob(dir, dev, seqs, o)
	if err != nil {
		return nil, err
	}
	q.findMixtures()
	tokens, longest := q.runner.tokens()
	m := &imatrix.Matrix{ChunkSize: longest, Chunks: (tokens + longest - 1) / longest, Entries: map[string]imatrix.Entry{}}
	for i := range q.blocks {
		b := &q.blocks[i]
		if err := q.sumSquares(ctx, b, m); err != nil {
			return nil, err
		}
		for k := range b.mixtures {
			if err := q.sumSquaresOfExperts(ctx, b, &b.mixtures[k], m); err != nil {
				return nil, err
			}
		}
		if i+1 < len(q.blocks) {
			if err := q.advance(ctx, b); err != nil {
				return nil, err
			}
		}
		if o.Progress != nil && b.layer >= 0 {
			o.Progress(Progress{Layer: b.layer, Layers: len(q.blocks) - 1, What: "importances"})
		}
	}
	return m, nil
}

// sumSquares adds the entries of a block.
func (q *job) sumSquares(ctx context.Context, b *block, m *imatrix.Matrix) error {
	if len(b.inputs) == 0 {
		return nil
	}
	sums := map[int][]float64{}
	var values []*graph.Value
	for i := range b.inputs {
		v := b.inputs[i].value
		values = append(values, v)
		sums[v.ID] = make([]float64, v.Axis.Len())
	}
	g, err := q.part(b.in, values)
	if err != nil {
		return err
	}
	err = q.runner.run(ctx, g, func(id, _ int, x []float32) error {
		to := sums[id]
		for i, v := range x {
			to[i%len(to)] += float64(v) * float64(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	tokens, _ := q.runner.tokens()
	for _, in := range b.inputs {
		squares := make([]float32, len(sums[in.value.ID]))
		for c, v := range sums[in.value.ID] {
			if squares[c] = float32(v); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("quantize: the inputs of %s are not finite; the model's weights do not fit its configuration", in.nodes[0].Weights[0].Name)
			}
		}
		for _, n := range in.nodes {
			m.Entries[n.Weights[0].Tensor] = imatrix.Entry{Squares: squares, Counts: []float32{float32(tokens)}}
		}
	}
	return nil
}

// sumSquaresOfExperts adds the entries of a node of experts.
func (q *job) sumSquaresOfExperts(ctx context.Context, b *block, of *mixture, m *imatrix.Matrix) error {
	x, scores, err := q.inputsOf(ctx, b, of.node)
	if err != nil {
		return err
	}
	var entries [graph.ExpertMatrices]imatrix.Entry
	for e, chosen := range chosenRows(of.node.Op.(graph.MoE), scores) {
		var floats [graph.ExpertDown]made
		for i := range floats {
			p := of.places[i][e]
			t, w, err := q.expertOf(p, e)
			if err != nil {
				return err
			}
			floats[i] = made{nil, w, t.Rows, t.Cols}
		}
		in := x.of(chosen)
		hidden, err := q.gated(ctx, of.node, in, floats[graph.ExpertGate], floats[graph.ExpertUp])
		if err != nil {
			return err
		}
		for i, v := range [graph.ExpertMatrices]rows{in, in, hidden} {
			entries[i].Squares = append(entries[i].Squares, v.squares()...)
			entries[i].Counts = append(entries[i].Counts, float32(len(chosen)))
		}
	}
	for i, w := range of.node.Weights {
		m.Entries[w.Tensor] = entries[i]
	}
	return nil
}

// squares is the sum of squares of each column.
func (v rows) squares() []float32 {
	sums := make([]float64, v.width)
	for i, x := range v.data {
		sums[i%v.width] += float64(x) * float64(x)
	}
	all := make([]float32, v.width)
	for c, x := range sums {
		all[c] = float32(x)
	}
	return all
}

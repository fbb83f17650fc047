package calibrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
)

// calibratedSlots and calibratedRank are the adapters with which LoRA is timed, beside products of matrices in calibratedFormat.
const (
	calibratedSlots, calibratedRank = 8, 16
	calibratedFormat                = quant.Q4_0
)

// adapted adds products of rows of in numbers, as a model has them, and what adapters change of their results.
func (y *benchGraph) adapted(in int, outs ...int) {
	x := y.feed("adapted", axis("in", in, 1))
	o, from := graph.Linear{To: y.info.Act}, x
	switch {
	case y.info.Q8 && pass.InIntegers(calibratedFormat):
		from = y.Emit("adapted.q8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
	case y.info.Q8 && pass.MayRound(calibratedFormat):
		o.ActType = graph.Q8
	}
	values, weights := []*graph.Value{x}, []*graph.Weight(nil)
	for i, out := range outs {
		w := y.Weight(fmt.Sprintf("adapted.%d/%s", i, calibratedFormat), axis("out", out, 1), axis("in", in, 1))
		values = append(values, y.Emit(fmt.Sprintf("adapted.y%d", i), o, []*graph.Value{from}, w)[0])
		weights = append(weights, y.Slots(fmt.Sprintf("adapted.lora%d", i), w.Tensor, graph.Slots{Of: w, Count: calibratedSlots, Rank: calibratedRank}))
	}
	y.last = y.Emit("adapted.lora", graph.LoRA{}, values, weights...)[0]
}

// adapters times LoRA: of a matrix and of two and three of the same rows, small and large, for few rows with an adapter each and for prompts. Of few rows adapters
// are read while the products beside them are computed, so that a launch by itself takes another time than it adds to a step: what is timed is steps with adapters
// and without, by turns, and LoRA takes what the former take more. Of prompts it is a launch behind the others. On a GPU adapters are part of the products.
func adapters(ctx context.Context, dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	if _, ok := dev.(backend.AdapterLoader); !ok || dev.Info().Replays {
		return samples, nil
	}
	for _, sizes := range [][]int{{512, 512, 128, 128}, {2048, 2048}, {2048, 4096, 4096}, {4096, 2048}} {
		var err error
		if samples, err = adaptersOf(ctx, dev, sizes[0], sizes[1:], samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// adaptersOf times LoRA behind products of rows of in numbers.
func adaptersOf(ctx context.Context, dev backend.Device, in int, outs []int, samples []price.Sample) ([]price.Sample, error) {
	y := newBenchGraph("adapters", dev.Info(), graph.F16)
	y.adapted(in, outs...)
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	run, err := newRunner(ctx, dev, g, 256, calibratedSlots, 256)
	if err != nil {
		return nil, err
	}
	defer run.prog.Close()
	if err := throughput.FillSlots(run.prog, run.rnd); err != nil {
		return nil, err
	}
	node := g.Nodes[slices.IndexFunc(g.Nodes, graph.IsAdapter)]
	for _, c := range []struct{ seqs, tokens, adapters int }{{1, 1, 1}, {4, 1, 4}, {8, 1, 1}, {8, 1, 8}, {1, 32, 1}, {4, 32, 4}, {1, 256, 1}} {
		s := seqs(c.seqs, c.tokens, 0)
		throughput.GiveAdapters(&s, c.adapters, calibratedRank)
		if c.tokens > 1 {
			timed, err := run.time(s, nil)
			if err != nil {
				return nil, err
			}
			samples = append(samples, slices.DeleteFunc(timed, func(s price.Sample) bool { return !graph.IsAdapter(s.Node) })...)
			continue
		}
		seconds, err := run.added(&s)
		if err != nil {
			return nil, err
		}
		samples = append(samples, price.Sample{Node: node, Step: &s, Set: run.set(&s), Seconds: seconds})
	}
	return samples, nil
}

// leastAdded is what a launch that nothing was measured of takes: a step with adapters may be as fast as one without.
const leastAdded = 100 * time.Nanosecond

// added is what a step takes more than without its adapters, the median of pairs one behind the other.
func (r *runner) added(s *graph.Step) (float64, error) {
	if err := r.stopped(); err != nil {
		return 0, err
	}
	without, plain := *s, backend.Batch{}
	without.Adapters = nil
	throughput.FillBatch(&r.batch, r.lim, s, tableRows, r.rnd)
	throughput.FillBatch(&plain, r.lim, &without, tableRows, r.rnd)
	took := func(b *backend.Batch) (time.Duration, error) {
		start := time.Now()
		err := r.prog.Run(b)
		return time.Since(start), err
	}
	var more []time.Duration
	start := time.Now()
	for run := 0; run <= maxRuns && (run <= minRuns || time.Since(start) < 2*effort); run++ {
		base, err := took(&plain)
		if err != nil {
			return 0, err
		}
		with, err := took(&r.batch)
		if err != nil {
			return 0, err
		}
		if run > 0 { // the first finds caches cold
			more = append(more, with-base)
		}
	}
	slices.Sort(more)
	return max(more[len(more)/2], leastAdded).Seconds(), nil
}

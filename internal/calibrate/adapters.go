package calibrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
)

// calibratedSlots and calibratedRank are the adapters with which LoRA is timed.
const calibratedSlots, calibratedRank = 8, 16

// adapted adds products of rows of in numbers, and what adapters change of their results.
func (y *benchGraph) adapted(in int, outs ...int) {
	name := fmt.Sprintf("adapted%dx%d", outs[0], in)
	x := y.feed(name, axis("in", in, 1))
	values, weights := []*graph.Value{x}, []*graph.Weight(nil)
	for i, out := range outs {
		w := y.Weight(fmt.Sprintf("%s.%d/%s", name, i, quant.F32), axis("out", out, 1), axis("in", in, 1))
		values = append(values, y.Linear(fmt.Sprintf("%s.y%d", name, i), x, w, nil))
		weights = append(weights, y.Slots(fmt.Sprintf("%s.lora%d", name, i), w.Tensor, graph.Slots{Of: w, Count: calibratedSlots, Rank: calibratedRank}))
	}
	y.last = y.Emit(name+".lora", graph.LoRA{}, values, weights...)[0]
}

// adapters times LoRA: of a matrix and of three of the same rows, small and large, for few rows with an adapter each and for prompts. On a GPU adapters are part of
// the products.
func adapters(ctx context.Context, dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	if _, ok := dev.(backend.AdapterLoader); !ok || dev.Info().Replays {
		return samples, nil
	}
	y := newBenchGraph("adapters", dev.Info(), graph.F16)
	y.adapted(512, 512, 128, 128)
	y.adapted(2048, 2048)
	y.adapted(2048, 4096, 4096)
	y.adapted(4096, 2048)
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
	var timed []price.Sample
	for _, c := range []struct{ seqs, tokens, adapters int }{{1, 1, 1}, {4, 1, 4}, {8, 1, 1}, {8, 1, 8}, {1, 32, 1}, {4, 32, 4}, {1, 256, 1}} {
		s := seqs(c.seqs, c.tokens, 0)
		throughput.GiveAdapters(&s, c.adapters, calibratedRank)
		if timed, err = run.time(s, timed); err != nil {
			return nil, err
		}
	}
	return append(samples, slices.DeleteFunc(timed, func(s price.Sample) bool { return !graph.IsAdapter(s.Node) })...), nil
}

package calibrate

import (
	"context"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
)

// rowCounts are the row counts at which products are timed: on a GPU up to a full prefill step.
func rowCounts(info backend.Info) []int {
	counts := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	if info.Replays {
		counts = append(counts, 1024, 2048)
	}
	return counts
}

// seqs is a step of n sequences of the same size; all have a row of logits.
func seqs(n, tokens, past int) graph.Step {
	s := graph.Step{Logits: n}
	for range n {
		s.Seqs = append(s.Seqs, graph.Seq{New: tokens, Past: past})
	}
	return s
}

// products times products of every format, with weights that exceed the near caches and with weights that fit them.
func products(ctx context.Context, dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	var err error
	type size struct{ out, in int }
	sizes := []size{{1024, 2048}, {256, 256}}
	if dev.Info().Replays { // a GPU
		sizes = append(sizes, size{4096, 8192})
	}
	for _, size := range sizes {
		if samples, err = productsOf(ctx, dev, size.out, size.in, rowCounts(dev.Info()), samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// Bounds of the weights that are read from memory to time it, in bytes. They are several times the size of the last cache: without strict
// LRU, a cache still hits for a good part of a working set a third larger than itself.
const (
	farther  = 3
	leastFar = 256 << 20
	mostFar  = 1 << 30
)

// farProducts times products of few rows in every format, with weights larger than all caches. It is skipped where caches are not known or
// too large.
func farProducts(ctx context.Context, dev backend.Device, p *price.Profile, samples []price.Sample) ([]price.Sample, error) {
	if len(p.Levels) < 2 {
		return samples, nil
	}
	weights := max(p.Levels[len(p.Levels)-2].Bytes*farther, leastFar)
	if weights > mostFar {
		return samples, nil
	}
	const in, unit = 2048, 64
	perRow := int64(0)
	for _, f := range quant.Formats() {
		perRow += f.RowBytes(in)
	}
	return productsOf(ctx, dev, (int(weights/perRow)/unit+1)*unit, in, []int{1, 4, 16}, samples)
}

func productsOf(ctx context.Context, dev backend.Device, out, in int, rowCounts []int, samples []price.Sample) ([]price.Sample, error) {
	y := newBenchGraph("products", dev.Info(), graph.F16)
	y.products(out, in, quant.Formats())
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	most := slices.Max(rowCounts)
	run, err := newRunner(ctx, dev, g, most, 1, most)
	if err != nil {
		return nil, err
	}
	defer run.prog.Close()
	for _, n := range rowCounts {
		if samples, err = run.time(seqs(1, n, 0), samples); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(samples, apart), nil
}

// rows times the ops that treat rows one by one.
func rows(ctx context.Context, dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	y := newBenchGraph("rows", dev.Info(), graph.F16)
	for _, heads := range []int{4, 32} {
		y.rows(heads, 64)
	}
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	run, err := newRunner(ctx, dev, g, 512, 1, 512)
	if err != nil {
		return nil, err
	}
	defer run.prog.Close()
	for _, n := range []int{1, 8, 64, 512} {
		if samples, err = run.time(seqs(1, n, 0), samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// attention times attention over caches of several shapes, in decode and prefill steps.
func attention(ctx context.Context, dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	y := newBenchGraph("attention", dev.Info(), graph.F16)
	for i, a := range []struct{ heads, kv, size int }{{8, 2, 64}, {4, 4, 64}, {8, 2, 128}, {32, 8, 64}} {
		y.attention(i, a.heads, a.kv, a.size)
	}
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	run, err := newRunner(ctx, dev, g, 512, 8, 4096)
	if err != nil {
		return nil, err
	}
	defer run.prog.Close()
	for _, s := range []graph.Step{
		seqs(1, 1, 31), seqs(1, 1, 500), seqs(1, 1, 4000), seqs(4, 1, 500), seqs(8, 1, 2000),
		seqs(1, 32, 0), seqs(1, 128, 0), seqs(1, 512, 0), seqs(1, 128, 1000), seqs(1, 512, 2000), seqs(4, 16, 300),
	} {
		if samples, err = run.time(s, samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

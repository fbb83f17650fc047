package calibrate

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
)

// rowCounts are the rows of the steps in which products are timed.
var rowCounts = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

// seqs is a step of n sequences that go on alike; all want logits.
func seqs(n, tokens, past int) graph.Step {
	s := graph.Step{Logits: n}
	for range n {
		s.Seqs = append(s.Seqs, graph.Seq{New: tokens, Past: past})
	}
	return s
}

// products times products of every format: with weights that together fill a far cache, and such as stay near.
func products(dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	var err error
	for _, size := range []struct{ out, in int }{{1024, 2048}, {256, 256}} {
		if samples, err = productsOf(dev, size.out, size.in, samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func productsOf(dev backend.Device, out, in int, samples []price.Sample) ([]price.Sample, error) {
	y := newYard("products", dev.Info(), graph.F16)
	y.products(out, in, quant.Formats())
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	grid, err := newGround(dev, g, 512, 1, 512)
	if err != nil {
		return nil, err
	}
	defer grid.prog.Close()
	for _, n := range rowCounts {
		if samples, err = grid.time(seqs(1, n, 0), samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// rows times the ops that treat rows one by one.
func rows(dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	y := newYard("rows", dev.Info(), graph.F16)
	for _, heads := range []int{4, 32} {
		y.rows(heads, 64)
	}
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	grid, err := newGround(dev, g, 512, 1, 512)
	if err != nil {
		return nil, err
	}
	defer grid.prog.Close()
	for _, n := range []int{1, 8, 64, 512} {
		if samples, err = grid.time(seqs(1, n, 0), samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// attention times attention over caches of several shapes, decoding and reading prompts.
func attention(dev backend.Device, samples []price.Sample) ([]price.Sample, error) {
	y := newYard("attention", dev.Info(), graph.F16)
	for i, a := range []struct{ heads, kv, size int }{{8, 2, 64}, {4, 4, 64}, {8, 2, 128}, {32, 8, 64}} {
		y.attention(i, a.heads, a.kv, a.size)
	}
	g, err := y.finish()
	if err != nil {
		return nil, err
	}
	grid, err := newGround(dev, g, 512, 8, 4096)
	if err != nil {
		return nil, err
	}
	defer grid.prog.Close()
	for _, s := range []graph.Step{
		seqs(1, 1, 31), seqs(1, 1, 500), seqs(1, 1, 4000), seqs(4, 1, 500), seqs(8, 1, 2000),
		seqs(1, 32, 0), seqs(1, 128, 0), seqs(1, 512, 0), seqs(1, 128, 1000), seqs(1, 512, 2000), seqs(4, 16, 300),
	} {
		if samples, err = grid.time(s, samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

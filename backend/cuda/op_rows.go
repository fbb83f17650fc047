package cuda

import (
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rows"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
)

func bindEmbed(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, out, w := n.Op.(graph.Embed), n.Out[0], a.Weights[0].(*weight)
	as := floatType(w.tensor.Format, out.Type)
	table, err := d.lookupTable(w, as, o)
	if err != nil {
		return nil, err
	}
	k, err := rows.Embed(d.loader, as, out.Type)
	if err != nil {
		return nil, err
	}
	p := &rows.EmbedParams{Table: table, Y: at(a.Out[0]), N: int32(out.Axis.Len()), Scale: 1, Known: int32(o.Known)}
	if n.Weights[0].Out.Shards > 0 {
		p.First, p.Held = int32(o.First), int32(w.tensor.Rows)
	}
	if o.Scale != 0 {
		p.Scale = float32(o.Scale)
	}
	give := d.bindGiven(n.Out[0], a.Out[0], o.First > 0)
	return func(s *step) error {
		p.Step, p.PrevTokens, p.Index = s.Step, d.sampler.tokens[1-d.steps.next], s.ids
		switch {
		case o.BySegment:
			p.Index = s.segments
		case o.ByPosition:
			p.Index = s.Positions
		}
		if err := rows.Launch(d.stream, k, s.tokens, p); err != nil || len(s.givenRows) == 0 || !o.Input {
			return err
		}
		return give(s)
	}, nil
}

func bindSelectRows(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	k, words, err := rows.Select(d.loader, n.Out[0].RowBytes())
	if err != nil {
		return nil, err
	}
	p := &rows.SelectParams{X: at(a.In[0]), Y: at(a.Out[0]), Words: words}
	return func(s *step) error {
		if s.logits == 0 {
			return nil
		}
		p.Step = s.Step
		return rows.Launch(d.stream, k, s.logits, p)
	}, nil
}

// lookupTable is where a lookup finds its table: on the device, or in pinned host memory, which kernels read by the same addresses (CUDA
// Driver API, "Unified Addressing").
func (d *Device) lookupTable(w *weight, as graph.Type, o graph.Embed) (driver.Ptr, error) {
	t, row := w.tensor, int(as.RowBytes(w.tensor.Cols))
	if o.Known == 0 || int64(t.Rows)*int64(row) < d.hostTable {
		return d.resident(w, as)
	}
	bytes, err := d.ctx.AllocHost(t.Rows * row)
	if err != nil {
		return 0, fmt.Errorf("cuda: weight %s: %s of host memory that stays in place are not to be had: %w", w.name, size.Text(int64(t.Rows)*int64(row)), err)
	}
	d.host[&hostMemory{bytes: bytes}] = true
	var parts errgroup.Group
	parts.SetLimit(runtime.GOMAXPROCS(0))
	const each = 1024
	for from := 0; from < t.Rows; from += each {
		to := min(from+each, t.Rows)
		parts.Go(func() error {
			dequantise(bytes[from*row:to*row], t, from, to, as)
			return nil
		})
	}
	return driver.Host(bytes), parts.Wait()
}

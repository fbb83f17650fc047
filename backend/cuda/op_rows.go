package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rows"
	"github.com/ridge-llm/ridge/graph"
)

func bindEmbed(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, out, w := n.Op.(graph.Embed), n.Out[0], a.Weights[0].(*weight)
	as := floatType(w.tensor.Format, out.Type)
	table, err := d.resident(w, as)
	if err != nil {
		return nil, err
	}
	k, err := rows.Embed(d.loader, as, out.Type)
	if err != nil {
		return nil, err
	}
	p := &rows.EmbedParams{Table: table, Y: at(a.Out[0]), N: int32(out.Axis.Len()), Scale: 1, Known: int32(o.Known)}
	if o.Scale != 0 {
		p.Scale = float32(o.Scale)
	}
	give := d.bindGiven(n, a)
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

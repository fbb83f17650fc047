package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/pointwise"
	"github.com/ridge-llm/ridge/graph"
)

// bindScale multiplies rows by a factor, which may grow with their tokens' positions.
func bindScale(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, out := n.Op.(graph.Scale), n.Out[0]
	k, err := pointwise.Scale(d.loader, out.Type)
	if err != nil {
		return nil, err
	}
	p := &pointwise.ScaleParams{X: at(a.In[0]), Y: at(a.Out[0]), Width: int32(out.Axis.Len()), By: float32(o.By)}
	g := o.Growth
	p.Beta, p.Every, p.From = float32(g.Beta), int32(g.Every), int32(g.From)
	return func(s *step) error {
		if g.Every != 0 {
			p.Positions = s.Positions
		}
		if s.rows(out.Rows) == 0 {
			return nil
		}
		return pointwise.LaunchScale(d.stream, k, s.rows(out.Rows), p)
	}, nil
}

func bindXIELU(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, out := n.Op.(graph.XIELU), n.Out[0]
	k, err := pointwise.XIELU(d.loader, out.Type)
	if err != nil {
		return nil, err
	}
	p := &pointwise.XIELUParams{X: at(a.In[0]), Y: at(a.Out[0])}
	p.Positive, p.Negative, p.Beta, p.Eps = float32(o.Positive), float32(o.Negative), float32(o.Beta), float32(o.Eps)
	return func(s *step) error {
		if p.N = int64(s.rows(out.Rows)) * int64(out.Axis.Len()); p.N == 0 {
			return nil
		}
		return pointwise.LaunchXIELU(d.stream, k, p)
	}, nil
}

func bindPointwise(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	k, err := pointwise.New(d.loader, n.Out[0].Type)
	if err != nil {
		return nil, err
	}
	p := &pointwise.Params{X: at(a.In[0]), Y: at(a.Out[0])}
	if len(a.In) == 2 {
		p.Other = at(a.In[1])
	}
	switch o := n.Op.(type) {
	case graph.Act:
		p.What = pointwise.Act + int32(o.Fn)
	case graph.ActMul:
		p.What = pointwise.ActMul + int32(o.Fn)
	case graph.Add:
		p.What = pointwise.Add
	case graph.Softcap:
		p.What, p.Limit = pointwise.Softcap, float32(o.Cap)
	}
	kind, width := n.Out[0].Rows, int64(n.Out[0].Axis.Len())
	return func(s *step) error {
		if p.N = int64(s.rows(kind)) * width; p.N == 0 {
			return nil
		}
		return k.Launch(d.stream, p)
	}, nil
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/pointwise"
	"github.com/ridge-llm/ridge/graph"
)

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

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
)

func bindRoute(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x := n.In[0]
	k, err := moe.NewShares(d.loader, x.Type, at(a.In[0]), at(a.Out[0]), x.Axis.Len(), n.Op.(graph.Route))
	if err != nil {
		return nil, err
	}
	if len(a.Weights) == 1 {
		if k.P.Bias, err = d.vector(a.Weights[0]); err != nil {
			return nil, err
		}
	}
	return func(s *step) error {
		if r := s.rows(x.Rows); r > 0 {
			return k.Launch(d.stream, r)
		}
		return nil
	}, nil
}

func bindGateRows(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x := n.In[0]
	k, err := moe.NewGateRows(d.loader, x.Type)
	if err != nil {
		return nil, err
	}
	p := &moe.GateRowsParams{X: at(a.In[0]), Gate: at(a.In[1]), Y: at(a.Out[0]), N: int32(x.Axis.Len()), Gates: int32(n.In[1].Axis.Len())}
	return func(s *step) error {
		if r := s.rows(x.Rows); r > 0 {
			return k.Launch(d.stream, r, p)
		}
		return nil
	}, nil
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/heads"
	"github.com/ridge-llm/ridge/graph"
)

func bindHeadLinear(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x, w, matrices := n.In[0], n.Weights[0], a.Weights[0].(*stack)
	as := floatType(matrices.matrices[0].Format, x.Type)
	p := &heads.Params{
		X: at(a.In[0]), Y: at(a.Out[0]), Heads: int32(x.Axis.Count), Size: int32(x.Axis.Size), Width: int32(n.Out[0].Axis.Size),
		N: int32(w.Out.Len()), K: int32(w.In.Len()), Rest: int32(n.Op.(graph.HeadLinear).Rest),
	}
	k, err := heads.Find(d.loader, p, x.Type, as)
	if err != nil {
		return nil, err
	}
	if p.W, err = d.expertRows(matrices, as); err != nil {
		return nil, err
	}
	return func(s *step) error {
		if p.Rows = int32(s.rows(x.Rows)); p.Rows == 0 {
			return nil
		}
		return k.Launch(d.stream, p)
	}, nil
}

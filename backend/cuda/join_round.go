package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/norm"
	"github.com/ridge-llm/ridge/graph"
)

// joinRound joins the normalisation of rows and their rounding.
func (d *Device) joinRound(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 2 {
		return nil, 0, nil
	}
	n, q := l[0], l[1]
	y := n.node.Out[len(n.node.Out)-1]
	p := norm.Params{N: int32(y.Axis.Len()), Groups: 1}
	switch o := n.node.Op.(type) {
	case graph.RMSNorm:
		if o.PerGroup {
			return nil, 0, nil
		}
		p.Eps = float32(o.Eps)
	case graph.AddNorm:
		p.Eps, p.Add, p.Sum = float32(o.Eps), at(n.args.In[1]), at(n.args.Out[0])
	default:
		return nil, 0, nil
	}
	to := q.node.Out[0]
	if _, ok := q.node.Op.(graph.Quantize); !ok || q.node.In[0] != y || readers[y] != 1 || y.Type != graph.BF16 {
		return nil, 0, nil
	}
	for _, in := range n.args.In {
		if overlap(q.args.Out[0], in) {
			return nil, 0, nil
		}
	}
	k, err := norm.Rounded(d.loader, to.Type, int(p.N))
	if k == nil || err != nil {
		return nil, 0, err
	}
	p.YScale = scalesOf(to, q.args.Out[0])
	put, err := d.bindNorm(n.node, backend.Args{In: n.args.In, Out: q.args.Out, Weights: n.args.Weights}, k, p)
	return &launch{text: n.text + " and its rounding", put: put}, 2, err
}

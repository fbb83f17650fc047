package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/norm"
	"github.com/ridge-llm/ridge/graph"
)

func fitsNormQuantize(_ *Device, n *graph.Node, parts []*graph.Node) bool {
	y := parts[1].In[0]
	return y.Type == graph.BF16 && parts[1].Op.(graph.Quantize).Below == 0 && norm.FitsRounded(y.Axis.Len())
}

// bindNormQuantize binds the norm of rows and their rounding; the norm itself is not written.
func bindNormQuantize(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	first, to := parts[0], n.Out[len(n.Out)-1]
	p := norm.Params{N: int32(to.Axis.Len()), Groups: 1}
	switch o := first.node.Op.(type) {
	case graph.RMSNorm:
		p.Eps = float32(o.Eps)
	case graph.AddNorm:
		p.Eps, p.Add, p.Sum = float32(o.Eps), at(first.args.In[1]), at(first.args.Out[0])
	}
	k, err := norm.Rounded(d.loader, to.Type, int(p.N))
	if err != nil {
		return nil, err
	}
	rounded := parts[1].args.Out
	p.YScale = scalesOf(to, rounded[0])
	put, err := d.bindNorm(first.node, backend.Args{In: first.args.In, Out: rounded, Weights: first.args.Weights}, k, p)
	return &launch{put: put}, err
}

// fitsGatedNorm: the functions of a gate that models have behind recurrent layers.
func fitsGatedNorm(_ *Device, n *graph.Node, parts []*graph.Node) bool {
	fn, x := parts[1].Op.(graph.ActMul).Fn, parts[0].In[0]
	return (fn == graph.Silu || fn == graph.Sigmoid) && n.Out[0].Type == graph.BF16 && norm.FitsGated(x.Axis.Size)
}

// bindGatedNorm binds the norm of each head and its product with a gate; the norm itself is not written.
func bindGatedNorm(d *Device, _ *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	first, act := parts[0], parts[1]
	x := first.node.In[0]
	k, err := norm.Gated(d.loader)
	if err != nil {
		return nil, err
	}
	p := norm.Params{
		N: int32(x.Axis.Size), Groups: int32(x.Axis.Count), Eps: float32(first.node.Op.(graph.RMSNorm).Eps),
		Gate: at(act.args.In[0]), Fn: int32(act.node.Op.(graph.ActMul).Fn),
	}
	put, err := d.bindNorm(first.node, backend.Args{In: first.args.In, Out: a.Out, Weights: first.args.Weights}, k, p)
	return &launch{put: put}, err
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
)

// A block of experts has a norm before it and one behind it. The sum before it, its norm and the router are one launch in steps of few
// rows. What adds up the experts' results does the sum and the norm behind the block as well, or, of a row that is computed by itself,
// the sum alone, if the norm is deferred.

// routedRows is up to how many rows are normalised and scored in one launch: each is normalised by several blocks.
const routedRows = 32

func fitsAddNormRouter(_ *Device, n *graph.Node, parts []*graph.Node) bool {
	router := parts[1]
	return n.Out[0].Type == graph.BF16 && router.Out[0].Type == graph.BF16 && !packed.Has(router.Weights[0].Format) && moe.RouterNormFits(n.Out[0].Axis.Len())
}

func bindAddNormRouter(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	if err := d.alone(parts...); err != nil {
		return nil, err
	}
	sum, router, x := parts[0], parts[1], n.Out[0]
	p := moe.RouterNormParams{
		X: at(sum.args.In[0]), Add: at(sum.args.In[1]), Sum: at(sum.args.Out[0]), Y: at(sum.args.Out[1]), Scores: at(router.args.Out[0]),
		N: int32(x.Axis.Len()), Experts: int32(router.node.Out[0].Axis.Len()), Eps: float32(sum.node.Op.(graph.AddNorm).Eps),
	}
	var err error
	if p.Norm, err = d.vector(sum.args.Weights[0]); err != nil {
		return nil, err
	}
	if p.W, err = d.resident(router.args.Weights[0].(*weight), graph.BF16); err != nil {
		return nil, err
	}
	if p.Bias, err = d.bias(router.args); err != nil {
		return nil, err
	}
	fused, err := moe.NewRouterNorm(d.loader, p)
	return &launch{put: func(s *step) error {
		if m := s.rows(x.Rows); m <= routedRows {
			return fused.Launch(d.stream, m)
		}
		return oneByOne(s, parts...)
	}}, err
}

func fitsMoEAddNorm(d *Device, n *graph.Node, parts []*graph.Node) bool {
	deferred := n.Op.(*graph.Fused).Deferred
	return tensorExperts(parts[0]) && moe.CombineNormFits(parts[0].Out[0].Axis.Len()) && (deferred == 0 || deferred <= d.singleRows(parts[0]))
}

// singleRows is up to how many rows a block of experts computes each by itself, and adds to a residual.
func (d *Device) singleRows(n *graph.Node) int {
	gated, down := expertSizes(n)
	return moe.MaxSingleRows(d.loader, n.Op.(graph.MoE), gated, down)
}

func bindMoEAddNorm(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	if err := d.alone(parts...); err != nil {
		return nil, err
	}
	experts, sum := parts[0], parts[1]
	to := moe.AddNorm{
		Residual: at(sum.args.In[1-summand(experts.node, sum.node)]), Total: at(sum.args.Out[0]), Y: at(sum.args.Out[1]),
		Eps: float32(sum.node.Op.(graph.AddNorm).Eps),
	}
	var err error
	if to.Weight, err = d.vector(sum.args.Weights[0]); err != nil {
		return nil, err
	}
	b, err := d.bindExperts(experts.node, experts.args, &to)
	if err != nil {
		return nil, err
	}
	rows, deferred := n.Out[0].Rows, n.Op.(*graph.Fused).Deferred
	return &launch{put: func(s *step) error {
		if r := s.rows(rows); r > deferred && b.alone(r) {
			return oneByOne(s, parts...)
		}
		return b.launch(d.stream, s)
	}}, nil
}

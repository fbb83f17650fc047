package cuda

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/graph"
)

// In steps of few rows a norm between packed weights has no launch of its own. The products behind it read whole rows anyway, so their
// prologue computes each row's scale and applies the norm's weights (a node's Prologue); the residual is added in the epilogue of the
// product before it, or of the block of experts (a node's Deferred norm). In steps of packed.NormRows rows the epilogue of the product
// before stores the sum times the norm's weights, and the products behind scale their results. Larger steps launch the parts one by one.

// prologue is the norm that products compute themselves, with its memory.
type prologue struct {
	rows   int // in steps of up to so many rows
	x      driver.Ptr
	weight driver.Ptr
	eps    float32
	norm   *graph.Value
	scales bool // the products can scale what an unscaled product left

	unscaled *packed.Kernel // that product; nil if there is none
}

// NormRows implements backend.NormFuser.
func (d *Device) NormRows(n *graph.Node) int {
	parts := graph.Parts(n)
	kind := graph.Kind("")
	if o, ok := n.Op.(*graph.Fused); ok {
		kind = o.Kind
	}
	switch kind {
	case "", graph.LinearAddNorm:
		return d.normRows(parts[0])
	case graph.LinearGroup:
		return min(d.normRows(parts[0]), d.normRows(parts[len(parts)-1])) // they are alike
	case graph.GatedLinear:
		return min(d.normRows(parts[0]), d.normRows(parts[1]))
	case graph.MoEAddNorm:
		return d.singleRows(parts[0])
	}
	return 0
}

// normRows is up to how many rows a layer computes a norm before it, or the sum behind it. A layer of plain floats does not: a launch of
// its own costs less than what each of kernels/gemm/skinny's many blocks would have to read.
func (d *Device) normRows(n *graph.Node) int {
	if _, ok := n.Op.(graph.Linear); !ok || n.In[0].Type != graph.BF16 || !streams(n) || !packed.Has(n.Weights[0].Format) {
		return 0
	}
	format, k := n.Weights[0].Format, n.In[0].Axis.Len()
	return max(packed.FusedRows(d.loader, format, k), packed.SparseNormRows(d.loader, format, n.Out[0].Axis.Len(), k))
}

// tensorLinear reports whether a node is a linear layer for Hopper's tensor cores.
func (d *Device) tensorLinear(n *graph.Node) bool {
	_, ok := n.Op.(graph.Linear)
	return ok && d.hopper() && streams(n) && n.Out[0].Axis.Len()%8 == 0
}

// alike reports whether two linear layers keep their weights in layouts that one kernel reads.
func alike(a, b *graph.Node) bool {
	v, w := a.Weights[0].Format, b.Weights[0].Format
	return packed.Has(v) == packed.Has(w) && (!packed.Has(v) || v == w)
}

// fitsLayers reports whether one launch computes all layers.
func (d *Device) fitsLayers(n *graph.Node, layers []*graph.Node) bool {
	for _, l := range layers {
		if !d.tensorLinear(l) || !alike(l, layers[0]) || !d.fitsPrologue(n, l) {
			return false
		}
	}
	return true
}

func fitsLinearGroup(d *Device, n *graph.Node, parts []*graph.Node) bool {
	return len(parts) <= groupMost(parts[0]) && d.fitsLayers(n, parts)
}

// groupMost is how many layers like one are a launch.
func groupMost(n *graph.Node) int {
	if packed.Has(n.Weights[0].Format) {
		return packed.MaxParts
	}
	return skinny.MaxParts
}

func fitsNormLinear(d *Device, n *graph.Node, parts []*graph.Node) bool {
	return n.Op.(*graph.Fused).Prologue != nil && d.fitsPrologue(n, parts[0])
}

// fitsPrologue reports whether a layer of a node computes as many rows' norms as its Prologue says, if it has one.
func (d *Device) fitsPrologue(n, layer *graph.Node) bool {
	p := n.Op.(*graph.Fused).Prologue
	return p == nil || p.Rows <= d.normRows(layer)
}

func fitsGatedLinear(d *Device, n *graph.Node, parts []*graph.Node) bool {
	fn := parts[2].Op.(graph.ActMul).Fn
	return (fn == graph.Silu || fn == graph.GeluTanh) && d.fitsLayers(n, parts[:2])
}

func fitsLinearAddNorm(d *Device, n *graph.Node, parts []*graph.Node) bool {
	rows := d.normRows(parts[0])
	return rows > 0 && n.Op.(*graph.Fused).Deferred <= rows && n.Out[0].Type == graph.BF16
}

// prologueOf is a node's, nil if it has none.
func (d *Device) prologueOf(n *graph.Node, a backend.Args, layers []*part) (*prologue, error) {
	o := n.Op.(*graph.Fused).Prologue
	if o == nil {
		return nil, nil
	}
	p := &prologue{rows: o.Rows, x: at(a.In[1]), eps: float32(o.Eps), norm: n.In[0], scales: true}
	for _, l := range layers {
		p.scales = p.scales && packed.FitsNormPrologue(d.loader, l.node.Out[0].Axis.Len(), l.node.In[0].Axis.Len())
	}
	var err error
	p.weight, err = d.vector(a.Weights[0])
	return p, err
}

// linked is a launch of products, which are told before the first step what leaves their rows unscaled.
func linked(put func(*step) error, p *prologue) *launch {
	l := &launch{put: put, prologue: p}
	if p != nil {
		l.link = func(to links) error {
			p.unscaled = to.unscaled[p.norm]
			return nil
		}
	}
	return l
}

func bindLinearGroup(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	p, err := d.prologueOf(n, a, parts)
	if err != nil {
		return nil, err
	}
	put, err := d.bindTensor(parts, nil, p)
	return linked(put, p), err
}

// interleaves reports whether the weights of a gate and the up matrix beside it are interleaved on the device, which takes memory that
// there may not be: then the parts are launched one by one.
func interleaves(gate *graph.Node) bool { return !packed.Has(gate.Weights[0].Format) }

// heldGatedLinear leaves out the gate's result, which is where the node's is to be.
func heldGatedLinear(parts []*graph.Node) []*graph.Node {
	if !interleaves(parts[0]) {
		return nil
	}
	return parts[1:2]
}

func bindGatedLinear(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	layers, act := parts[:2], parts[2]
	p, err := d.prologueOf(n, a, layers)
	if err != nil {
		return nil, err
	}
	if !interleaves(layers[0].node) {
		put, err := d.bindTensor(layers, act, p)
		return linked(put, p), err
	}
	layers[0].args.Out, act.args.In = act.args.Out, []backend.Buffer{act.args.Out[0], act.args.In[1]}
	if err := d.alone(parts...); err != nil {
		return nil, err
	}
	var whole func(*step) error
	return &launch{
		put: func(s *step) error {
			if whole == nil {
				return oneByOne(s, parts...)
			}
			return whole(s)
		},
		link: func(links) error { // not before all weights have been asked for: interleaving waits for its two
			if mustStay(layers) {
				return nil
			}
			put, err := d.bindTensor(layers, act, nil)
			if driver.IsOutOfMemory(err) {
				return nil
			}
			whole = put
			return err
		},
	}, nil
}

// mustStay reports whether the program for steps with adapters, which has others for them, reads the weights of a gate and an up matrix.
func mustStay(layers []*part) bool {
	return slices.ContainsFunc(layers, func(l *part) bool { return l.args.Weights[0].(*weight).asItIs })
}

func bindLinearAddNorm(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	if err := d.alone(parts...); err != nil {
		return nil, err
	}
	product, sum := parts[0], parts[1]
	problem, err := d.sumProblem(product, sum)
	if err != nil {
		return nil, err
	}
	format := product.args.Weights[0].(*weight).format
	var few *packed.Kernel // nil of sparse weights, which have unscaled alone
	if !packed.Sparse(format) {
		if few, err = packed.NewFused(d.loader, format, problem); err != nil {
			return nil, err
		}
	}
	weight, err := d.vector(sum.args.Weights[0])
	if err != nil {
		return nil, err
	}
	var unscaled *packed.Kernel // for steps of rows that packed.NormRows, if all behind it can do their part
	rows, deferred := n.Out[0].Rows, n.Op.(*graph.Fused).Deferred
	return &launch{
		put: func(s *step) error {
			switch m := s.rows(rows); {
			case few != nil && m <= deferred:
				return few.Launch(d.stream, m)
			case unscaled != nil && packed.NormRows(format, m):
				return unscaled.Launch(d.stream, m)
			}
			return oneByOne(s, parts...)
		},
		link: func(to links) (err error) {
			norm := n.Out[1]
			if deferred == 0 || to.cannot[norm] {
				return nil // readers of sparse weights find the norm that the parts made, and make it again in steps of few rows
			}
			unscaled, err = packed.NewNormEpilogue(d.loader, format, problem, weight, at(sum.args.Out[1]), d.scratch())
			to.unscaled[norm] = unscaled
			return err
		},
	}, nil
}

// sumProblem is a product whose result is added to what the sum behind it adds it to.
func (d *Device) sumProblem(product, sum *part) (packed.Problem, error) {
	x, residual, to := product.args.In[0], sum.args.In[1-summand(product.node, sum.node)], sum.args.Out[0]
	in, out := product.node.In[0], product.node.Out[0]
	bias, err := d.bias(product.args)
	if err != nil {
		return packed.Problem{}, err
	}
	on, err := d.packedOnDevice(product.args.Weights[0].(*weight))
	return packed.Problem{
		X: at(x), Rows: int(x.Len / in.RowBytes()), K: in.Axis.Len(), Parts: []packed.Part{{W: on, Bias: bias, Y: at(to), N: out.Axis.Len()}}, Residual: at(residual),
	}, err
}

// summand is which of a sum's two inputs a node makes.
func summand(n, sum *graph.Node) int {
	if sum.In[0] == n.Out[0] {
		return 0
	}
	return 1
}

// bindDeferredNorm binds a norm that is launched in steps of more rows than those that read it compute it in.
func bindDeferredNorm(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	put, err := bindRMSNorm(d, graph.Parts(n)[0], a)
	rows, deferred := n.Out[0].Rows, n.Op.(graph.DeferredNorm).Rows
	return func(s *step) error {
		if s.rows(rows) <= deferred {
			return nil
		}
		return put(s)
	}, err
}

package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesimt "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_simt"
	densesm80 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm80"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/graph"
)

// linears lists the ways to compute a linear layer, the fastest first.
func (d *Device) linears(n *graph.Node) []backend.Kernel {
	x := n.In[0]
	var all []backend.Kernel
	if streams(n) {
		name := "linear skinny, mma"
		if d.hopper() && densesm90.Fits(x.Type, n.Out[0].Axis.Len(), x.Axis.Len()) {
			name = "linear skinny, wgmma"
		}
		if eightBit(x.Type) {
			name += " " + x.Type.String()
		}
		all = d.one(name, bindTensorLinear)
	}
	if kernels.Plain(x.Type) {
		all = append(all, d.one("linear simt", bindLinear)...)
	}
	return all
}

func (d *Device) hopper() bool { return d.loader.Hopper() }

// streams reports whether a linear layer is one for the tensor cores: rows of bf16 or of numbers of eight bits that load 16 bytes at a
// time.
func streams(n *graph.Node) bool {
	x := n.In[0]
	return (x.Type == graph.BF16 || eightBit(x.Type)) && n.Out[0].Type == graph.BF16 && skinny.Fits(x.Type, x.Axis.Len())
}

// bias is the address of a linear layer's bias, 0 when it has none.
func (d *Device) bias(a backend.Args) (driver.Ptr, error) {
	if len(a.Weights) < 2 {
		return 0, nil
	}
	return d.vector(a.Weights[1])
}

func bindLinear(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x, out, w := n.In[0], n.Out[0], a.Weights[0].(*weight)
	as := floatType(w.tensor.Format, x.Type)
	p := &densesimt.Params{X: at(a.In[0]), Y: at(a.Out[0]), N: int32(out.Axis.Len()), K: int32(x.Axis.Len())}
	if out.Type == graph.F32 {
		p.ToF32 = 1
	}
	k, err := densesimt.Find(d.loader, x.Type, as)
	if err != nil {
		return nil, err
	}
	if p.W, err = d.resident(w, as); err != nil {
		return nil, err
	}
	if p.Bias, err = d.bias(a); err != nil {
		return nil, err
	}
	return func(s *step) error {
		if p.M = int32(s.rows(out.Rows)); p.M == 0 {
			return nil
		}
		return densesimt.Launch(d.stream, k, p)
	}, nil
}

func bindTensorLinear(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	return d.bindTensor([]*part{{node: n, args: a}}, nil, nil)
}

// bindTensor binds linear layers that read the same rows as one launch. With act they are the gate and up matrices of a
// feed-forward block, which become one matrix, and act is what joins their results. Packed layers may have a prologue.
func (d *Device) bindTensor(layers []*part, act *part, p *prologue) (func(*step) error, error) {
	if packs(layers[0].args.Weights[0].(*weight)) {
		return d.bindPacked(layers, act, p)
	}
	put, _, err := d.bindProducts(layers, act)
	return put, err
}

// products is layers as the kernels for few and for many rows have them.
type products struct {
	few  skinny.Params
	wide densesm90.Problem
}

// bindProducts is bindTensor for layers of plain floats, or of numbers of eight bits.
func (d *Device) bindProducts(layers []*part, act *part) (func(*step) error, *products, error) {
	x, buffer := layers[0].node.In[0], layers[0].args.In[0]
	wide := densesm90.Problem{Type: x.Type, X: at(buffer), XScale: scalesOf(x, buffer), Rows: roomFor(x, buffer), K: x.Axis.Len(), Gated: act != nil}
	few := &skinny.Params{X: wide.X, XScale: wide.XScale, K: int32(kernels.Pairs(x.Type, wide.K))}
	fits, interleave := d.hopper(), func() error { return nil }
	for i, l := range layers {
		bias, err := d.bias(l.args)
		if err != nil {
			return nil, nil, err
		}
		matrix := l.args.Weights[0].(*weight)
		if i == 1 && act != nil { // interleaved with the gate's
			wide.Weights[0].Bias2, wide.Weights[0].Scale2 = bias, matrix.scales
			few.Part[1].Bias, few.Part[1].Scale = bias, matrix.scales
			break
		}
		n, y := l.node.Out[0].Axis.Len(), at(l.args.Out[0])
		var w driver.Ptr
		if act != nil {
			y = at(act.args.Out[0])
			w, interleave, err = d.interleaved(matrix, layers[1].args.Weights[0].(*weight), x.Type)
		} else {
			w, err = d.resident(matrix, x.Type)
		}
		if err != nil {
			return nil, nil, err
		}
		wide.Weights = append(wide.Weights, densesm90.Weight{W: w, Bias: bias, Scale: matrix.scales, Y: y, N: n})
		few.Part[i] = skinny.Part{W: w, Bias: bias, Scale: matrix.scales, Y: y, N: int32(n)}
		fits = fits && densesm90.Fits(x.Type, n, wide.K)
	}
	few.Parts = int32(len(wide.Weights))
	if act != nil {
		few.Fn = int32(act.node.Op.(graph.ActMul).Fn)
		wide.Fn = few.Fn
	}
	skinnyKernel, err := skinny.New(d.loader, x.Type, act != nil)
	if err != nil {
		return nil, nil, err
	}
	many, err := d.bindProduct(wide, fits)
	if err != nil {
		return nil, nil, err
	}
	if err := interleave(); err != nil {
		return nil, nil, err
	}
	most := 8 // rows up to which the skinny kernel is faster; see bench/h200.md
	if !fits {
		most = skinny.MaxRows
	}
	kind := layers[0].node.Out[0].Rows
	return func(s *step) error {
		switch m := s.rows(kind); {
		case m == 0:
			return nil
		case m <= most:
			few.M = int32(m)
			return skinnyKernel.Launch(d.stream, few)
		default:
			return many(m)
		}
	}, &products{*few, wide}, nil
}

// bindProduct binds the product of many rows: Hopper's kernel, which all its matrices must fit, or the one for a single matrix elsewhere.
func (d *Device) bindProduct(p densesm90.Problem, fits bool) (func(m int) error, error) {
	if fits {
		k, err := densesm90.New(d.loader, p, d.sums)
		return func(m int) error { return k.Launch(d.stream, m) }, err
	}
	if len(p.Weights) != 1 || p.Gated {
		return nil, fmt.Errorf("cuda: %d layers of odd sizes cannot be computed as one", len(p.Weights))
	}
	k, err := densesm80.Find(d.loader, p.Type)
	w := p.Weights[0]
	t := &densesm80.Params{X: p.X, XScale: p.XScale, W: w.W, Scale: w.Scale, Bias: w.Bias, Y: w.Y, N: int32(w.N), K: int32(kernels.Pairs(p.Type, p.K))}
	return func(m int) error {
		t.M = int32(m)
		return densesm80.Launch(d.stream, k, t)
	}, err
}

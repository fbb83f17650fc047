package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/norm"
	"github.com/ridge-llm/ridge/graph"
)

func bindRMSNorm(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x := n.Op.(graph.RMSNorm), n.In[0]
	p := norm.Params{N: int32(x.Axis.Len()), Groups: 1, Eps: float32(o.Eps)}
	var k *norm.Kernel
	var err error
	if o.PerGroup {
		p.N, p.Groups = int32(x.Axis.Size), int32(x.Axis.Count)
		k, err = norm.GroupRMS(d.loader, x.Type)
	} else if o.Groups > 0 {
		p.N, p.Groups, p.OwnWeights = int32(x.Axis.Len()/o.Groups), int32(o.Groups), 1
		k, err = norm.GroupRMS(d.loader, x.Type)
	} else if o.Of > 0 {
		p.Of, p.Squares = int32(o.Of), at(a.In[1])
		k, err = norm.RMSOfShard(d.loader, x.Type, x.Axis.Len())
	} else {
		k, err = norm.RMS(d.loader, x.Type, x.Axis.Len())
	}
	if err != nil {
		return nil, err
	}
	return d.bindNorm(n, a, k, p)
}

func bindAddNorm(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x := n.Op.(graph.AddNorm), n.In[0]
	k, err := norm.RMS(d.loader, x.Type, x.Axis.Len())
	if err != nil {
		return nil, err
	}
	p := norm.Params{Add: at(a.In[1]), Sum: at(a.Out[0]), N: int32(x.Axis.Len()), Groups: 1, Eps: float32(o.Eps)}
	a.Out = a.Out[1:]
	return d.bindNorm(n, a, k, p)
}

func bindLayerNorm(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x := n.Op.(graph.LayerNorm), n.In[0]
	k, err := norm.Layer(d.loader, x.Type, x.Axis.Len())
	if err != nil {
		return nil, err
	}
	return d.bindNorm(n, a, k, norm.Params{N: int32(x.Axis.Len()), Groups: 1, Eps: float32(o.Eps)})
}

// bindNorm adds the memory to a normalisation's parameters.
func (d *Device) bindNorm(n *graph.Node, a backend.Args, k *norm.Kernel, p norm.Params) (func(*step) error, error) {
	var err error
	p.X, p.Y = at(a.In[0]), at(a.Out[0])
	if p.Weight, err = d.vector(a.Weights[0]); err != nil {
		return nil, err
	}
	if len(a.Weights) == 2 {
		if p.Bias, err = d.vector(a.Weights[1]); err != nil {
			return nil, err
		}
	}
	kind := n.Out[0].Rows
	return func(s *step) error {
		if p.Rows = int32(s.rows(kind)); p.Rows == 0 {
			return nil
		}
		return k.Launch(d.stream, &p)
	}, nil
}

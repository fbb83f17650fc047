package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/linear"
	"github.com/ridge-llm/ridge/graph"
)

// linears lists the ways to compute a linear layer, the fastest first.
func (d *Device) linears(n *graph.Node) []backend.Kernel {
	return d.one("linear plain", bindLinear)
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
	as := w.plainType(x.Type)
	p := &linear.Params{X: at(a.In[0]), Y: at(a.Out[0]), N: int32(out.Axis.Len()), K: int32(x.Axis.Len())}
	if out.Type == graph.F32 {
		p.ToF32 = 1
	}
	k, err := linear.Find(d.loader, x.Type, as)
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
		return linear.Launch(d.stream, k, p)
	}, nil
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attend"
	"github.com/ridge-llm/ridge/graph"
)

// attentions lists the ways to compute attention, the fastest first.
func (d *Device) attentions(n *graph.Node, o graph.Attention) []backend.Kernel {
	c := n.In[1].Cache
	if c.K.Size > attend.MaxSize || c.V.Size > attend.MaxSize {
		return nil
	}
	return d.one("attention plain", bindAttention)
}

func bindAttention(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, q, c := n.Op.(graph.Attention), n.In[0], n.In[1].Cache
	k, err := attend.Find(d.loader, q.Type, c.Type)
	if err != nil {
		return nil, err
	}
	p := &attend.Params{
		Q: at(a.In[0]), Cache: at(a.In[1]), Y: at(a.Out[0]),
		Heads: int32(q.Axis.Count), KVHeads: int32(c.K.Count), KSize: int32(c.K.Size), VSize: int32(c.V.Size),
		Window: int32(c.Window), Scale: float32(o.Scale), Softcap: float32(o.Softcap),
	}
	return func(s *step) error {
		p.Step = s.Step
		return attend.Launch(d.stream, k, s.tokens, p)
	}, nil
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/heads512"
	"github.com/ridge-llm/ridge/graph"
)

// heads512Problem is attention with heads of more than 256 as its kernel sees it, and whether it is that and has none of the variants that the kernel lacks.
// Without memory it serves to size the scratch.
func heads512Problem(n *graph.Node, a backend.Args) (heads512.Problem, bool) {
	o, q, c := n.Op.(graph.Attention), n.In[0], n.In[1].Cache
	p := heads512.Problem{
		Heads: q.Axis.Count, KVHeads: c.K.Count, KSize: c.K.Size, VSize: c.V.Size, Window: windowOf(o, c), Scale: o.Scale, Softcap: o.Softcap, Type: c.Type,
	}
	if len(a.In) == 2 {
		p.Q, p.Cache, p.Y = at(a.In[0]), at(a.In[1]), at(a.Out[0])
	}
	return p, max(c.K.Size, c.V.Size) > 256 && !c.Latent && !o.Bidirectional && !o.Chunked && len(n.Weights) == 0 && heads512.Fits(p, q.Type)
}

// bindHeads512 joins the launches for prompts, for sequences with one new token, and for those with token trees.
func bindHeads512(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	if d.ctx.SharedBlock < heads512.Shared {
		return bindAttention(d, n, a)
	}
	trees, err := d.bindSIMTAttention(n, a, true)
	if err != nil {
		return nil, err
	}
	p, _ := heads512Problem(n, a)
	k, err := heads512.New(d.loader, p, at(a.Scratch))
	return func(s *step) error {
		if s.trees > 0 {
			if err := trees(s); err != nil {
				return err
			}
		}
		view := s.of(n.In[1].Cache)
		if s.tiles > 0 {
			if err := k.Prompts(d.stream, &view, s.tiles); err != nil {
				return err
			}
		}
		if s.decodes > 0 {
			return k.Decode(d.stream, &view, s.treeLen, s.seqs)
		}
		return nil
	}, err
}

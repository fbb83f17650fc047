package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/latent"
	"github.com/ridge-llm/ridge/graph"
)

// latentAttention is the kernel for a node that attends to a latent cache on the tensor cores; none if its values are of another type.
func (d *Device) latentAttention(n *graph.Node, name string, bind bind) []backend.Kernel {
	q, c := n.In[0], n.In[1].Cache
	if !latent.Fits(c.K.Size, c.V.Size, q.Type, c.Type, d.loader.Hopper()) {
		return nil
	}
	return []backend.Kernel{kernel{dev: d, name: name, bind: bind, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		return latent.PartialBytes(d.loader.SMs(), lim.Tokens, latentProblem(n, backend.Args{}))
	}}}
}

// latentProblem is the node as the kernel sees it; without memory it serves to size the scratch.
func latentProblem(n *graph.Node, a backend.Args) latent.Problem {
	q, c := n.In[0], n.In[1].Cache
	p := latent.Problem{Heads: q.Axis.Count, KSize: c.K.Size, VSize: c.V.Size, Type: c.Type}
	switch o := n.Op.(type) {
	case graph.Attention:
		p.Scale = o.Scale
	case graph.SparseAttention:
		p.Scale, p.Most = o.Scale, n.In[2].Axis.Len()
	}
	if len(a.In) > 0 {
		p.Q, p.Cache, p.Y = at(a.In[0]), at(a.In[1]), at(a.Out[0])
	}
	p.Page = a.Limits.PageSize
	if len(a.In) == 3 {
		p.Chosen = at(a.In[2])
	}
	return p
}

// plainLatent reports whether attention has none of the variants that the kernel for latent caches lacks.
func plainLatent(n *graph.Node) bool {
	o, c := n.Op.(graph.Attention), n.In[1].Cache
	return c.Latent && c.K.Count == 1 && c.Window == 0 && o.Softcap == 0 && !o.Bidirectional && o.Reach == 0 && !o.Chunked && len(n.Weights) == 0
}

// bindLatent joins the kernel for rows with the one for those of token trees.
func bindLatent(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	if d.ctx.SharedBlock < latent.Shared {
		return bindAttention(d, n, a)
	}
	trees, err := d.bindSIMTAttention(n, a, true)
	if err != nil {
		return nil, err
	}
	k, err := latent.New(d.loader, latentProblem(n, a), at(a.Scratch))
	return func(s *step) error {
		if s.trees > 0 {
			if err := trees(s); err != nil {
				return err
			}
		}
		view := s.of(n.In[1].Cache)
		return k.Launch(d.stream, &view, s.treeLen, s.ancestors, s.tokens)
	}, err
}

// bindLatentChosen attends to chosen keys.
func bindLatentChosen(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	if d.ctx.SharedBlock < latent.Shared {
		return bindSparseAttention(d, n, a)
	}
	k, err := latent.New(d.loader, latentProblem(n, a), at(a.Scratch))
	return func(s *step) error {
		view := s.of(n.In[1].Cache)
		return k.Launch(d.stream, &view, s.treeLen, s.ancestors, s.tokens)
	}, err
}

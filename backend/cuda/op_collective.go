package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/collective"
	"github.com/ridge-llm/ridge/backend/cuda/nccl"
	"github.com/ridge-llm/ridge/graph"
)

// Bind implements backend.Peers. The launches are like any other: they wait for nothing on the host, and can be recorded.
func (p *peers) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	var put func(*step) error
	err := p.d.do(func() (err error) {
		p.d.steps.need(a.Limits)
		switch o := n.Op.(type) {
		case graph.AllReduce:
			put, err = p.bindReduce(n, a, o.Ranks)
		case *graph.Fused:
			put, err = p.bindReduceNorm(n, a)
		case graph.AllGather:
			put, err = p.bindGather(n, a, o)
		case graph.Send:
			put, err = p.bindMessage(n.In[0], a.In[0], o.To, true)
		case graph.Recv:
			put, err = p.bindMessage(n.Out[0], a.Out[0], o.From, false)
		case graph.GatherRows, graph.OwnRows, graph.ToHeads, graph.FromHeads, graph.GatherSelected:
			put, err = p.bindRows(n, a)
		case graph.Dispatch:
			put, err = p.bindDispatch(n, a, o)
		case graph.Combine:
			put, err = p.bindCombine(n, a, o)
		default:
			err = fmt.Errorf("cuda: GPUs do not exchange %s", n.Op.Name())
		}
		return err
	})
	return &launch{text: n.Out[0].Name, put: put, of: p}, err
}

// ranks checks that a node is for as many ranks as there are.
func (p *peers) ranks(n int) error {
	if n != p.group.Ranks {
		return fmt.Errorf("cuda: a collective of %d ranks in a group of %d", n, p.group.Ranks)
	}
	return nil
}

func ncclType(t graph.Type) nccl.Type {
	if t == graph.BF16 {
		return nccl.BF16
	}
	return nccl.F32
}

func (p *peers) bindReduce(n *graph.Node, a backend.Args, ranks int) (func(*step) error, error) {
	if err := p.ranks(ranks); err != nil {
		return nil, err
	}
	v, x, y := n.In[0], at(a.In[0]), at(a.Out[0])
	k, err := collective.NewReduce(p.d.loader, v.Type)
	if err != nil {
		return nil, err
	}
	return func(s *step) error {
		count := int64(s.rows(v.Rows)) * int64(v.Axis.Len())
		switch {
		case count == 0:
			return nil
		case p.own:
			return k.Launch(p.d.stream, &p.group, x, y, count)
		}
		return p.nccl.call(func(c *nccl.Comm) error { return c.AllReduce(p.d.stream, x, y, count, ncclType(v.Type)) })
	}, nil
}

// reduceNorms lists the ways to compute an all-reduce with the norm behind it: one, which a group binds.
func (d *Device) reduceNorms(parts []*graph.Node) []backend.Kernel {
	v := parts[0].In[0]
	if !collective.FitsNorm(v.Type, v.Axis.Len()) || parts[0].Op.(graph.AllReduce).Ranks > collective.MaxRanks {
		return nil
	}
	return d.one("all-reduce, add, rmsnorm", func(_ *Device, n *graph.Node, _ backend.Args) (func(*step) error, error) {
		return nil, fmt.Errorf("cuda: %s without a group of GPUs", n)
	})
}

// bindReduceNorm binds an all-reduce with the sum and the norm behind it: one launch for few rows, and one of each for more, and by NCCL.
func (p *peers) bindReduceNorm(n *graph.Node, a backend.Args) (func(*step) error, error) {
	parts := graph.Parts(n)
	v, o := n.In[0], parts[1].Op.(graph.AddNorm)
	ranks := parts[0].Op.(graph.AllReduce).Ranks
	between := a.Out[1] // the norm takes the place of what it is of
	reduce, err := p.bindReduce(parts[0], backend.Args{In: a.In[:1], Out: []backend.Buffer{between}, Limits: a.Limits}, ranks)
	if err != nil {
		return nil, err
	}
	norm, err := bindAddNorm(p.d, parts[1], backend.Args{In: []backend.Buffer{between, a.In[1]}, Out: a.Out, Weights: a.Weights, Limits: a.Limits})
	if err != nil {
		return nil, err
	}
	k, err := collective.NewReduceNorm(p.d.loader, v.Axis.Len(), float32(o.Eps))
	if err != nil {
		return nil, err
	}
	if k.Weight, err = p.d.vector(a.Weights[0]); err != nil {
		return nil, err
	}
	x, add, sum, y := at(a.In[0]), at(a.In[1]), at(a.Out[0]), at(a.Out[1])
	return func(s *step) error {
		rows := s.rows(v.Rows)
		if p.own && k.Fits(&p.group, rows) {
			return k.Launch(p.d.stream, &p.group, x, add, sum, y, rows)
		}
		if err := reduce(s); err != nil {
			return err
		}
		return norm(s)
	}, nil
}

func (p *peers) bindGather(n *graph.Node, a backend.Args, o graph.AllGather) (func(*step) error, error) {
	if err := p.ranks(o.Ranks); err != nil {
		return nil, err
	}
	v, x, y := n.In[0], at(a.In[0]), at(a.Out[0])
	k, err := collective.NewGather(p.d.loader, v.Type, v.Axis.Len(), o.Axis.Len())
	if err != nil {
		return nil, err
	}
	if p.own {
		return func(s *step) error { return k.Launch(p.d.stream, &p.group, x, y, s.rows(v.Rows)) }, nil
	}
	shards, err := p.d.alloc(int64(a.Limits.Rows(v.Rows))*v.RowBytes()*int64(o.Ranks), "shards of "+n.Out[0].Name)
	if err != nil {
		return nil, err
	}
	return func(s *step) error {
		rows := s.rows(v.Rows)
		if rows == 0 {
			return nil
		}
		err := p.nccl.call(func(c *nccl.Comm) error {
			return c.AllGather(p.d.stream, x, shards, int64(rows)*int64(v.Axis.Len()), ncclType(v.Type))
		})
		if err != nil {
			return err
		}
		return k.Join(p.d.stream, p.group.SMs, shards, y, rows)
	}, nil
}

// bindMessage binds a Send to a rank or a Recv from one.
func (p *peers) bindMessage(v *graph.Value, b backend.Buffer, peer int, sends bool) (func(*step) error, error) {
	where := at(b)
	if peer < 0 || peer >= p.group.Ranks {
		return nil, fmt.Errorf("cuda: a message to or from rank %d of %d", peer, p.group.Ranks)
	}
	if p.own {
		k, err := collective.NewMessage(p.d.loader, sends)
		return func(s *step) error {
			return k.Launch(p.d.stream, &p.group, peer, where, int64(s.rows(v.Rows))*v.RowBytes())
		}, err
	}
	exchange := func(c *nccl.Comm, at driver.Ptr, bytes int64) error { return c.Recv(p.d.stream, peer, at, bytes) }
	if sends {
		exchange = func(c *nccl.Comm, at driver.Ptr, bytes int64) error { return c.Send(p.d.stream, peer, at, bytes) }
	}
	return func(s *step) error {
		bytes := int64(s.rows(v.Rows)) * v.RowBytes()
		if bytes == 0 {
			return nil
		}
		return p.nccl.call(func(c *nccl.Comm) error { return exchange(c, where, bytes) })
	}, nil
}

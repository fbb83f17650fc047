package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/decode"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv4"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rope"
	"github.com/ridge-llm/ridge/graph"
)

// Rotated keys go straight to the cache, in one launch with the rotation of the queries. Where few sequences decode, attention does that
// too, and the norm of each head before it: rotated queries are not written either.

func fitsRoPEKVWrite(_ *Device, _ *graph.Node, parts []*graph.Node) bool {
	query, store := parts[0], parts[2]
	c, dim := store.In[0].Cache, query.Op.(graph.RoPE).Dim
	if query.In[0].Type != graph.BF16 || store.In[2].Type != graph.BF16 || query.In[0].Axis.Size != c.K.Size {
		return false
	}
	switch {
	case eightBit(c.Type):
		return max(c.K.Size, c.V.Size) <= kv8.MaxSize
	case c.Type == graph.I4:
		return max(c.K.Size, c.V.Size) <= kv4.MaxSize
	}
	return halves(c.Type) && rope.RopeStoreFits(c.K.Size, dim, c.V.Len())
}

// fitsRoPEAttention leaves out what depends on the limits of a step: there the parts are launched as they would be unfused.
func fitsRoPEAttention(d *Device, n *graph.Node, parts []*graph.Node) bool {
	ropes, attention := parts[len(parts)-4:], parts[len(parts)-1]
	for _, norm := range parts[:len(parts)-4] {
		if norm.Out[0].Type != graph.BF16 {
			return false
		}
	}
	o := attention.Op.(graph.Attention)
	return d.hopper() && !o.Bidirectional && !o.Chunked && fitsRoPEKVWrite(d, n, ropes) &&
		decode.FitsRope(decodeProblem(attention, backend.Args{}), ropes[0].Op.(graph.RoPE).Dim)
}

// heldRoPEAttention leaves out rotated keys, which are nowhere but in the cache.
func heldRoPEAttention(parts []*graph.Node) []*graph.Node {
	keys := len(parts) - 3
	return append(parts[:keys:keys], parts[keys+1:]...)
}

func bindRoPEKVWrite(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	put, err := d.bindRoPEStore(parts)
	return &launch{put: put}, err
}

// bindRoPEStore binds the rotation of queries and keys and the store of keys and values.
func (d *Device) bindRoPEStore(parts []*part) (func(*step) error, error) {
	q, k, store := parts[0], parts[1], parts[2]
	c, o := store.node.In[0].Cache, q.node.Op.(graph.RoPE)
	p := rope.RopeStoreParams{
		Q: at(q.args.In[0]), K: at(k.args.In[0]), V: at(store.args.In[2]), Angles: at(q.args.In[1]), Y: at(q.args.Out[0]), Cache: at(store.args.Out[0]),
		Heads: int32(q.node.In[0].Axis.Count), KVHeads: int32(c.K.Count), Size: int32(c.K.Size), VLen: int32(c.V.Len()), Dim: int32(o.Dim),
	}
	if o.Pairing == graph.AdjacentPairs {
		p.Adjacent = 1
	}
	if c.Type == graph.I4 {
		return d.storeInt4(store.node, store.args, kv4.StoreParams{
			Q: p.Q, K: p.K, V: p.V, Angles: p.Angles, Y: p.Y,
			Heads: p.Heads, KVHeads: p.KVHeads, Size: p.Size, VSize: int32(c.V.Size), Dim: p.Dim, Adjacent: p.Adjacent,
		})
	}
	if eightBit(c.Type) {
		return d.storeBytes(graph.BF16, c, kv8.StoreParams{
			Q: p.Q, K: p.K, V: p.V, Angles: p.Angles, Y: p.Y, Cache: p.Cache,
			Heads: p.Heads, KVHeads: p.KVHeads, Size: p.Size, VSize: int32(c.V.Size), Dim: p.Dim, Adjacent: p.Adjacent,
		})
	}
	fn, err := rope.RopeStore(d.loader, c.Type)
	return func(s *step) error {
		p.Step = s.of(c)
		return d.apart(s, func() error { return rope.LaunchRopeStore(d.stream, fn, s.tokens, &p) })
	}, err
}

func bindRoPEAttention(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	norms, ropes, attention := parts[:len(parts)-4], parts[len(parts)-4:len(parts)-1], parts[len(parts)-1]
	if err := d.alone(append(norms[:len(norms):len(norms)], attention)...); err != nil {
		return nil, err
	}
	store, err := d.bindRoPEStore(ropes)
	if err != nil {
		return nil, err
	}
	whole, err := d.bindWhole(norms, ropes, attention)
	return &launch{put: func(s *step) error {
		if whole != nil && s.recorded && whole.Gains(s.tokens) {
			view := s.of(attention.node.In[1].Cache)
			return whole.Launch(d.stream, &view, s.seqs)
		}
		if err := oneByOne(s, norms...); err != nil {
			return err
		}
		if err := store(s); err != nil {
			return err
		}
		return attention.put(s)
	}}, err
}

// bindWhole is the kernel for few sequences of one new token that does all of it; nil if pages are too small for it, or sequences too many.
func (d *Device) bindWhole(norms, ropes []*part, attention *part) (*decode.Kernel, error) {
	q, k, store, lim := ropes[0], ropes[1], ropes[2], attention.args.Limits
	p := decodeProblem(attention.node, attention.args)
	if lim.PageSize < decode.MinPage || decode.Counters(lim.Seqs, p) > counters {
		return nil, nil
	}
	rows, keys := q.args.In[0], k.args.In[0]
	fresh := decode.NewToken{Values: at(store.args.In[2]), Angles: at(q.args.In[1]), Adjacent: q.node.Op.(graph.RoPE).Pairing == graph.AdjacentPairs}
	var err error
	if len(norms) > 0 {
		if fresh.QueryNorm, err = d.vector(norms[0].args.Weights[0]); err != nil {
			return nil, err
		}
		if fresh.KeyNorm, err = d.vector(norms[1].args.Weights[0]); err != nil {
			return nil, err
		}
		rows, keys, fresh.Eps = norms[0].args.In[0], norms[1].args.In[0], float32(norms[0].node.Op.(graph.RMSNorm).Eps)
	}
	p.Q, fresh.Keys = at(rows), at(keys)
	if p.Sinks, err = d.sinks(attention.args); err != nil {
		return nil, err
	}
	return decode.NewRope(d.loader, p, fresh, at(attention.args.Scratch), d.counters)
}

package cuda

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/decode"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rope"
	"github.com/ridge-llm/ridge/graph"
)

// joinTurn joins what turns queries and keys with the store and, if it can, with the attention behind it.
func (d *Device) joinTurn(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	store, n, err := d.joinTurnStore(l, readers)
	if n == 0 || err != nil || len(l) == n {
		return store, n, err
	}
	whole, err := d.turnAttend(nil, l, readers)
	if whole == nil || err != nil {
		return store, n, err
	}
	attend := l[n]
	return &launch{text: attend.text + " (with what turns and stores)", put: func(s *step) error {
		if s.recorded && whole.Gains(s.tokens) {
			view := s.of(attend.node.In[1].Cache)
			return whole.Launch(d.stream, &view, s.seqs)
		}
		if err := store.put(s); err != nil {
			return err
		}
		return attend.put(s)
	}}, n + 1, nil
}

// joinHeads joins the normalisation of each head of queries and of keys with what joinTurn joins, where one launch does it all.
func (d *Device) joinHeads(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 6 {
		return nil, 0, nil
	}
	norms, turned := l[:2], l[2:]
	for i, norm := range norms {
		o, ok := norm.node.Op.(graph.RMSNorm)
		_, turns := turned[i].node.Op.(graph.RoPE)
		y := norm.node.Out[0]
		if !ok || !turns || !o.PerGroup || o != norms[0].node.Op || y.Type != graph.BF16 || readers[y] != 1 || turned[i].node.In[0] != y {
			return nil, 0, nil
		}
	}
	store, n, err := d.joinTurnStore(turned, readers)
	if n == 0 || err != nil {
		return nil, 0, err
	}
	attend := turned[n]
	whole, err := d.turnAttend(norms, turned, readers)
	if whole == nil || err != nil {
		return nil, 0, err
	}
	return &launch{text: attend.text + " (with what normalises, turns and stores)", put: func(s *step) error {
		if s.recorded && whole.Gains(s.tokens) {
			view := s.of(attend.node.In[1].Cache)
			return whole.Launch(d.stream, &view, s.seqs)
		}
		for _, l := range []*launch{norms[0], norms[1], store, attend} {
			if err := l.put(s); err != nil {
				return err
			}
		}
		return nil
	}}, 2 + n + 1, nil
}

// turnAttend is the kernel for few sequences of one new token that does all of l: it turns queries and keys, stores keys and values (what
// joinTurnStore joins) and attends; nil if there is none. norms are those of queries and of keys, which it does as well, or nil.
func (d *Device) turnAttend(norms, l []*launch, readers map[*graph.Value]int) (*decode.Kernel, error) {
	q, k, store, attend := l[0], l[1], l[2], l[3]
	o, ok := attend.node.Op.(graph.Attention)
	if !ok || o.Bidirectional || !d.hopper() || attend.node.In[0] != q.node.Out[0] || attend.node.In[1] != store.node.Out[0] || readers[q.node.Out[0]] != 1 {
		return nil, nil
	}
	turn, lim := q.node.Op.(graph.RoPE), attend.args.Limits
	rows, keys := q.args.In[0], k.args.In[0]
	fresh := decode.Fresh{Values: at(store.args.In[2]), Angles: at(q.args.In[1]), Adjacent: turn.Pairing == graph.AdjacentPairs}
	if norms != nil {
		var err error
		if fresh.QueryNorm, err = d.vector(norms[0].args.Weights[0]); err != nil {
			return nil, err
		}
		if fresh.KeyNorm, err = d.vector(norms[1].args.Weights[0]); err != nil {
			return nil, err
		}
		rows, keys, fresh.Eps = norms[0].args.In[0], norms[1].args.In[0], float32(norms[0].node.Op.(graph.RMSNorm).Eps)
	}
	p := decodeProblem(attend.node, attend.args)
	p.Q, fresh.Keys = at(rows), at(keys)
	y, scratch := attend.args.Out[0], attend.args.Scratch
	late := []backend.Buffer{keys, store.args.In[2]} // what is read later than the plan thinks
	switch {
	case !decode.FitsTurning(p, turn.Dim) || lim.PageSize < decode.MinPage,
		decode.Counters(lim.Seqs, p) > counters,
		slices.ContainsFunc(late, func(b backend.Buffer) bool { return overlap(b, y) || overlap(b, scratch) }),
		overlap(rows, scratch),
		overlap(rows, y) && (y.Off != rows.Off || p.KSize != p.VSize): // in place every block reads its queries before their results are written
		return nil, nil
	}
	var err error
	if p.Sinks, err = d.sinks(attend.args); err != nil {
		return nil, err
	}
	return decode.NewTurning(d.loader, p, fresh, at(scratch), d.counters)
}

// joinTurnStore joins the turning of queries and keys and the store of keys and values.
func (d *Device) joinTurnStore(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 3 {
		return nil, 0, nil
	}
	q, isQ := l[0].node.Op.(graph.RoPE)
	k, isK := l[1].node.Op.(graph.RoPE)
	_, isStore := l[2].node.Op.(graph.KVWrite)
	if !isQ || !isK || !isStore || q != k {
		return nil, 0, nil
	}
	query, key, store := l[0].node, l[1].node, l[2].node
	c := store.In[0].Cache
	switch {
	case query.In[0].Type != graph.BF16 || store.In[2].Type != graph.BF16,
		store.In[1] != key.Out[0] || readers[key.Out[0]] != 1 || query.In[1] != key.In[1],
		query.In[0].Axis.Size != c.K.Size,
		overlap(l[0].args.Out[0], l[1].args.In[0]) || overlap(l[0].args.Out[0], l[2].args.In[2]):
		return nil, 0, nil
	}
	p := rope.TurnStoreParams{
		Q: at(l[0].args.In[0]), K: at(l[1].args.In[0]), V: at(l[2].args.In[2]), Angles: at(l[0].args.In[1]),
		Y: at(l[0].args.Out[0]), Cache: at(l[2].args.Out[0]),
		Heads: int32(query.In[0].Axis.Count), KVHeads: int32(c.K.Count), Size: int32(c.K.Size), VLen: int32(c.V.Len()), Dim: int32(q.Dim),
	}
	if q.Pairing == graph.AdjacentPairs {
		p.Adjacent = 1
	}
	put, err := d.turnStore(c, p)
	if put == nil || err != nil {
		return nil, 0, err
	}
	return &launch{text: l[0].text + " (with keys and values to the cache)", put: put}, 3, nil
}

// turnStore finds what turns queries and keys and stores keys and values in a cache of this type; nil if there is none.
func (d *Device) turnStore(c *graph.Cache, p rope.TurnStoreParams) (func(s *step) error, error) {
	switch {
	case eightBit(c.Type) && max(c.K.Size, c.V.Size) <= kv8.MaxSize:
		return d.storeBytes(graph.BF16, c, kv8.StoreParams{
			Q: p.Q, K: p.K, V: p.V, Angles: p.Angles, Y: p.Y, Cache: p.Cache,
			Heads: p.Heads, KVHeads: p.KVHeads, Size: p.Size, VSize: int32(c.V.Size), Dim: p.Dim, Adjacent: p.Adjacent,
		})
	case halves(c.Type) && rope.TurnStoreFits(c.K.Size, int(p.Dim), c.V.Len()):
		fn, err := rope.TurnStore(d.loader, c.Type)
		return func(s *step) error {
			p.Step = s.of(c)
			return d.apart(s, func() error { return rope.LaunchTurnStore(d.stream, fn, s.tokens, &p) })
		}, err
	}
	return nil, nil
}

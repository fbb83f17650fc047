package cuda

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/bytes"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/decode"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rope"
	"github.com/ridge-llm/ridge/graph"
)

// A launch costs one to three microseconds of a GPU that reads four gigabytes in a millisecond, so neighbours in a program
// that one kernel can do together become one launch. This is decided once a program, from its nodes, before its first step:
//
//	Linear, Linear (, Linear) of the same rows             one launch over all their weights
//	Linear gate, Linear up, ActMul of the two              one launch with the function at its end
//	Linear, AddNorm, Linear …                              the norm is no launch in steps of few rows; see join_norm.go
//	AddNorm, Linear, MoE, AddNorm                          two launches fewer, in steps of few rows; see join_experts.go
//	RMSNorm or AddNorm, Quantize of what it makes          one launch; what is not rounded is not written
//	RoPE of queries, RoPE of keys, KVWrite                 one launch; the turned keys go straight to the cache
//	the same and Attention                                 one launch where few sequences decode; turned queries are not written either
//	RMSNorm of each head of those before                   the same launch, where it is one
//
// What a joined launch no longer writes must have had no other reader, and what it writes must not lie where it still
// reads: the plan reuses memory as if each node ran by itself.

// join gives the launches of a program with neighbours joined.
func (d *Device) join(list []backend.Launch) ([]*launch, error) {
	all := make([]*launch, len(list))
	readers := map[*graph.Value]int{}
	for i, l := range list {
		all[i] = l.(*launch)
		for _, v := range all[i].node.In {
			readers[v]++
		}
	}
	if err := d.findFolds(all, readers); err != nil {
		return nil, err
	}
	var joined []*launch
	for i := 0; i < len(all); {
		one, n, err := d.joinOne(all[i:], readers)
		if err != nil {
			return nil, err
		}
		one.count = n
		joined, i = append(joined, one), i+n
	}
	return joined, nil
}

// joinOne joins the first launch with what it can be joined with; it gives how many that were, 1 if none.
func (d *Device) joinOne(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	for _, try := range []func([]*launch, map[*graph.Value]int) (*launch, int, error){d.joinScores, d.joinExperts, d.joinHeads, d.joinNorm, d.joinSum, d.joinGate, d.joinLinears, d.joinRound, d.joinTurn} {
		if one, n, err := try(l, readers); n > 0 || err != nil {
			return one, n, err
		}
	}
	return l[0], 1, nil
}

// Joined implements backend.Joiner.
func (d *Device) Joined(launches []backend.Launch) (counts []int, err error) {
	err = d.do(func() error {
		list, err := d.joinedOf(launches)
		for _, l := range list {
			counts = append(counts, l.count)
		}
		return err
	})
	return counts, err
}

// joinedOf is join, once for each program.
func (d *Device) joinedOf(launches []backend.Launch) ([]*launch, error) {
	if len(launches) == 0 {
		return nil, nil
	}
	st := d.steps
	list := st.joined[&launches[0]]
	if list == nil {
		var err error
		if list, err = d.join(launches); err != nil {
			return nil, err
		}
		if err = d.loader.Wait(); err != nil { // a program's last kernels have been asked for
			return nil, err
		}
		st.joined[&launches[0]] = list
	}
	return list, nil
}

// tensorLinear reports whether a launch is a linear layer for Hopper's tensor cores.
func (d *Device) tensorLinear(l *launch) bool {
	_, ok := l.node.Op.(graph.Linear)
	return ok && d.hopper() && streams(l.node) && l.node.Out[0].Axis.Len()%8 == 0
}

// alike reports whether two linear layers keep their weights in layouts that one kernel reads.
func alike(a, b *launch) bool {
	v, w := a.args.Weights[0].(*weight), b.args.Weights[0].(*weight)
	return packs(v) == packs(w) && (!packs(v) || v.format == w.format)
}

// overlap reports whether two buffers share memory.
func overlap(a, b backend.Buffer) bool {
	return a.Mem == b.Mem && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len
}

// joinGate joins a gate, its other half and the function on both.
func (d *Device) joinGate(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 3 || !d.tensorLinear(l[0]) || !d.tensorLinear(l[1]) || !alike(l[0], l[1]) {
		return nil, 0, nil
	}
	o, ok := l[2].node.Op.(graph.ActMul)
	gate, up := l[0].node.Out[0], l[1].node.Out[0]
	switch {
	case !ok || o.Fn != graph.Silu && o.Fn != graph.GeluTanh,
		l[2].node.In[0] != gate || l[2].node.In[1] != up,
		l[0].node.In[0] != l[1].node.In[0],
		readers[gate] != 1 || readers[up] != 1,
		overlap(l[2].args.Out[0], l[0].args.In[0]):
		return nil, 0, nil
	}
	put, err := d.bindTensor(l[:2], l[2])
	if driver.IsOutOfMemory(err) { // no room to weave the two together: they stay apart
		return nil, 0, nil
	}
	return &launch{text: l[2].text + " (gate, up and function)", put: put}, 3, err
}

// joinLinears joins up to three linear layers that read the same rows.
func (d *Device) joinLinears(l []*launch, _ map[*graph.Value]int) (*launch, int, error) {
	n := 0
	for n < min(3, len(l)) && d.tensorLinear(l[n]) && alike(l[0], l[n]) && l[n].node.In[0] == l[0].node.In[0] && !overlap(l[n].args.Out[0], l[0].args.In[0]) {
		n++
	}
	if n == 0 && l[0].fold != nil && d.foldRows(l[0]) > 0 {
		n = 1 // apart from the others, but it reads what they do
	}
	if n == 0 || n == 1 && l[0].fold == nil {
		return nil, 0, nil
	}
	put, err := d.bindTensor(l[:n], nil)
	return &launch{text: l[0].text + " and what reads the same", put: put}, n, err
}

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
			return whole.Launch(d.stream, &s.Step, s.seqs)
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
		if !ok || !turns || !o.PerGroup || o != norms[0].node.Op || norm.node.Out[0].Type != graph.BF16 || readers[norm.node.Out[0]] != 1 || turned[i].node.In[0] != norm.node.Out[0] {
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
			return whole.Launch(d.stream, &s.Step, s.seqs)
		}
		for _, l := range []*launch{norms[0], norms[1], store, attend} {
			if err := l.put(s); err != nil {
				return err
			}
		}
		return nil
	}}, 2 + n + 1, nil
}

// turnAttend is the kernel for few sequences of one new token that turns queries and keys, stores keys and values and attends, of launches
// that joinTurnStore joins and the one behind them; nil if there is none. norms are those of queries and of keys, which it does as well, or nil.
func (d *Device) turnAttend(norms, l []*launch, readers map[*graph.Value]int) (*decode.Kernel, error) {
	q, k, store, attend := l[0], l[1], l[2], l[3]
	o, ok := attend.node.Op.(graph.Attention)
	if !ok || o.Both || !d.hopper() || attend.node.In[0] != q.node.Out[0] || attend.node.In[1] != store.node.Out[0] || readers[q.node.Out[0]] != 1 {
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
		overlap(rows, scratch) || overlap(rows, y) && (y.Off != rows.Off || p.KSize != p.VSize): // in place every block reads its queries before their results are written
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
		Q: at(l[0].args.In[0]), K: at(l[1].args.In[0]), V: at(l[2].args.In[2]), Angles: at(l[0].args.In[1]), Y: at(l[0].args.Out[0]), Cache: at(l[2].args.Out[0]),
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
	case eightBit(c.Type) && max(c.K.Size, c.V.Size) <= bytes.MaxSize:
		return d.storeBytes(graph.BF16, c, bytes.StoreParams{
			Q: p.Q, K: p.K, V: p.V, Angles: p.Angles, Y: p.Y, Cache: p.Cache,
			Heads: p.Heads, KVHeads: p.KVHeads, Size: p.Size, VSize: int32(c.V.Size), Dim: p.Dim, Adjacent: p.Adjacent,
		})
	case halves(c.Type) && rope.TurnStoreFits(c.K.Size, int(p.Dim), c.V.Len()):
		fn, err := rope.TurnStore(d.loader, c.Type)
		return func(s *step) error {
			p.Step = s.Step
			return d.apart(s, func() error { return rope.LaunchTurnStore(d.stream, fn, s.tokens, &p) })
		}, err
	}
	return nil, nil
}

package graph

import "fmt"

// KVWrite stores keys and values of the step's tokens at their slots of a cache.
type KVWrite struct{ simple }

// Name implements Op.
func (KVWrite) Name() string { return "KVWrite" }

// Attrs implements Op.
func (KVWrite) Attrs() string { return "" }

// Infer implements Op: cache, k [tokens, K], v [tokens, V] → the cache's next version; of a cache of I4 cache, k, v, its residual cache → the next versions of
// both. A row of a latent cache is written in two parts, one behind the other (latent, rope key), or in one.
func (KVWrite) Infer(n *Node) ([]Value, error) {
	if len(n.In) > 0 && n.In[0].Cache != nil && n.In[0].Cache.Latent {
		return inferLatentWrite(n)
	}
	caches, err := storesOf(n, 0)
	if err != nil {
		return nil, err
	}
	if err := arity(n, 2+len(caches), 0, 0); err != nil {
		return nil, err
	}
	cache, k, v := n.In[0], n.In[1], n.In[2]
	if k.Axis != cache.Cache.K || v.Axis != cache.Cache.V {
		return nil, fmt.Errorf("%s takes rows of %s and %s, not %s and %s", cache.Name, cache.Cache.K, cache.Cache.V, k.Axis, v.Axis)
	}
	return caches, nil
}

// storesOf is the cache that a node has as an input, and the residual one that it has last where that is of I4.
func storesOf(n *Node, at int) ([]Value, error) {
	if len(n.In) <= at || n.In[at].Cache == nil {
		return nil, fmt.Errorf("input %d is not a cache", at)
	}
	c := n.In[at].Cache
	if c.Type != I4 {
		return []Value{{Cache: c}}, nil
	}
	if c.K.Size%8 != 0 || c.V.Size%8 != 0 {
		return nil, fmt.Errorf("%s has heads of %d and %d numbers, and int4 takes multiples of 8; choose --kv-type f16", c.Name, c.K.Size, c.V.Size)
	}
	last := n.In[len(n.In)-1].Cache
	if last == nil || !last.Residual || last.Layer != c.Layer {
		return nil, fmt.Errorf("%s is in int4 and comes without its residual cache", c.Name)
	}
	return []Value{{Cache: c}, {Cache: last}}, nil
}

// inferLatentWrite is Infer of a latent cache.
func inferLatentWrite(n *Node) ([]Value, error) {
	if err := arity(n, min(max(len(n.In), 2), 3), 0, 0); err != nil {
		return nil, err
	}
	c, length := n.In[0].Cache, 0
	for _, x := range n.In[1:] {
		if err := matrix(x); err != nil {
			return nil, err
		}
		if err := whole(x); err != nil {
			return nil, err
		}
		length += x.Axis.Len()
	}
	if c.K.Count != 1 || c.V.Count != 1 || c.V.Size > c.K.Size || length != c.K.Len() {
		return nil, fmt.Errorf("%s takes rows of %s and values of %s within them, of one head each, and is given %d numbers", c.Name, c.K, c.V, length)
	}
	return []Value{{Cache: c}}, nil
}

// Work implements Op.
func (KVWrite) Work(n *Node, s *Step) Work {
	w := traffic(n, s, 0)
	for _, v := range n.Out {
		w.CacheWrite += int64(s.Tokens()) * v.Cache.RowBytes()
	}
	return w
}

// KVWrite adds the store and returns the cache's next version.
func (b *Builder) KVWrite(cache, k, v *Value) *Value {
	in := []*Value{cache, k, v}
	residual := b.residuals[cache]
	if residual != nil {
		in = append(in, residual)
	}
	out := b.Emit(cache.Name, KVWrite{}, in)
	if residual != nil {
		b.residuals[out[0]] = out[1]
	}
	return out[0]
}

// LatentWrite adds the store of rows of a latent cache, parts one behind the other, and returns the cache's next version.
func (b *Builder) LatentWrite(cache *Value, parts ...*Value) *Value {
	return b.Emit(cache.Name, KVWrite{}, append([]*Value{cache}, parts...))[0]
}

// Attention lets every query look at the keys of its own sequence up to its own position, no further back than the
// cache's window: softmax(scale × q·k, soft-capped) · v. Query heads share key heads in equal groups (MHA, GQA,
// MQA). With Chunked the window is that of a chunk instead: every so many positions a new one begins, and queries look no further back than
// their own (Llama 4). With Bidirectional they look at the keys behind them as well, as an encoder's do, with Reach no further than so many
// either way: its sequences are computed whole, in one step, and their caches have no window. A weight, if there is one, holds a sink for each query head: a score without a key,
// which takes part in the softmax and adds nothing (gpt-oss; Xiao et al., arXiv:2309.17453). It stays one node so that a backend
// may tile it (FlashAttention) as it likes.
type Attention struct {
	simple
	Scale         float64
	Bidirectional bool
	Reach         int     // of Bidirectional, keys either way; 0: all
	Chunked       bool    // the cache's window is the length of chunks
	Softcap       float64 // scores become cap × tanh(score / cap); 0: none
}

// Name implements Op.
func (Attention) Name() string { return "Attention" }

// Attrs implements Op.
func (o Attention) Attrs() string {
	s := fmt.Sprintf("scale %.6g", o.Scale)
	if o.Softcap != 0 {
		s += fmt.Sprintf(", softcap %g", o.Softcap)
	}
	if o.Bidirectional {
		s += ", bidirectional"
	}
	if o.Reach != 0 {
		s += fmt.Sprintf(" within %d", o.Reach)
	}
	if o.Chunked {
		s += ", in chunks"
	}
	return s
}

// Infer implements Op: q [tokens, heads × key size], cache, its residual cache? (of I4), sinks? [1, heads] → [tokens, heads × value size].
func (o Attention) Infer(n *Node) ([]Value, error) {
	caches, err := storesOf(n, 1)
	if err != nil {
		return nil, err
	}
	if err := arity(n, 1+len(caches), 0, 1); err != nil {
		return nil, err
	}
	q, cache := n.In[0], n.In[1].Cache
	if err := matrix(q); err != nil {
		return nil, err
	}
	if q.Axis.Shards != cache.K.Shards && !cache.Latent { // a latent cache is whole on every device
		return nil, fmt.Errorf("queries are %s and keys %s: their heads are not divided over devices alike", q.Axis, cache.K)
	}
	if q.Axis.Size != cache.K.Size {
		return nil, fmt.Errorf("queries have heads of %d and keys of %d", q.Axis.Size, cache.K.Size)
	}
	if cache.K.Count == 0 || q.Axis.Count%cache.K.Count != 0 || cache.V.Count != cache.K.Count {
		return nil, fmt.Errorf("%d query heads cannot share %d key heads and %d value heads equally", q.Axis.Count, cache.K.Count, cache.V.Count)
	}
	if len(n.Weights) == 1 {
		if err := vector(n.Weights[0], q.Axis.Count); err != nil {
			return nil, err
		}
	}
	if o.Bidirectional && cache.Type == I4 {
		return nil, fmt.Errorf("bidirectional attention over %s in int4, whose tokens are quantised as later ones come; choose --kv-type f16", cache.Name)
	}
	if o.Bidirectional && cache.Window != 0 {
		return nil, fmt.Errorf("bidirectional attention over a cache with a window of %d", cache.Window)
	}
	if o.Reach < 0 || o.Reach > 0 && !o.Bidirectional || o.Chunked && cache.Window == 0 {
		return nil, fmt.Errorf("attention %s over a cache with a window of %d", o.Attrs(), cache.Window)
	}
	return []Value{{Rows: q.Rows, Axis: Axis{Name: q.Axis.Name, Count: q.Axis.Count, Size: cache.V.Size, Shards: q.Axis.Shards}, Type: q.Type}}, nil
}

// Work implements Op: q·k and p·v for every pair and head, and scale, maximum, exponential, sum and (once a row) the
// division; the caches' rows are read once a sequence. Those of a residual cache, fewer than quant.Int4Group of a sequence beside the step's own, count as rows of I4.
func (o Attention) Work(n *Node, s *Step) Work {
	q, c := n.In[0], n.In[1].Cache
	perPair := int64(2*c.K.Size + 2*c.V.Size + 4)
	if o.Softcap != 0 {
		perPair += 3
	}
	heads := int64(q.Axis.Count)
	pairs, rows := s.Pairs(c.Window), s.CtxRows(c.Window)
	switch {
	case o.Chunked:
		pairs, rows = s.ChunkPairs(c.Window), s.ChunkRows(c.Window)
	case o.Reach > 0:
		pairs = s.NearPairs(o.Reach)
	case o.Bidirectional:
		pairs = s.AllPairs()
	}
	perRow := int64(c.V.Size)
	if len(n.Weights) == 1 {
		perRow += 3 // maximum, exponential, sum
	}
	w := traffic(n, s, heads*(pairs*perPair+int64(s.Tokens())*perRow))
	w.CacheRead = rows * c.RowBytes()
	return w
}

// Attention adds the attention of queries q over a version of a cache, with sinks if they are given.
func (b *Builder) Attention(name string, q, cache *Value, o Attention, sinks ...*Weight) *Value {
	in := []*Value{q, cache}
	if residual := b.residuals[cache]; residual != nil {
		in = append(in, residual)
	}
	return b.Emit(name, o, in, sinks...)[0]
}

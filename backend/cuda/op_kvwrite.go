package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv4"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rows"
	"github.com/ridge-llm/ridge/graph"
)

// halves reports whether a type is one of the two of 16 bits, which the tensor cores take.
func halves(t graph.Type) bool { return t == graph.BF16 || t == graph.F16 }

// eightBit reports whether numbers of a type have eight bits: of rows with a scale each, and of a cache.
func eightBit(t graph.Type) bool { return t == graph.I8 || t == graph.F8 }

// kvWrites lists the ways to write keys and values to the cache. With RoPE before it they are one fused node; see op_fused_attention.go.
func (d *Device) kvWrites(n *graph.Node) []backend.Kernel {
	if n.In[0].Cache.Latent {
		return d.one("latent write", bindLatentWrite)
	}
	switch c := n.In[0].Cache; {
	case c.Type == graph.I4 && max(c.K.Size, c.V.Size) <= kv4.MaxSize:
		return d.one("kvwrite, int4", bindInt4Write)
	case c.Type == graph.I4, eightBit(c.Type) && max(c.K.Size, c.V.Size) > kv8.MaxSize:
		return nil
	}
	return d.one("kvwrite", bindKVWrite)
}

func bindKVWrite(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	c := n.In[0].Cache
	if size := a.Limits.PageSize; size&(size-1) != 0 || size < 4 {
		return nil, fmt.Errorf("cuda: pages of %d tokens; a power of two from 4 on is needed", size)
	}
	if eightBit(c.Type) {
		return d.storeBytes(n.In[1].Type, c, kv8.StoreParams{
			K: at(a.In[1]), V: at(a.In[2]), Cache: at(a.Out[0]), KVHeads: int32(c.K.Count), Size: int32(c.K.Size), VSize: int32(c.V.Size),
		})
	}
	k, err := rows.KVWrite(d.loader, n.In[1].Type, c.Type)
	if err != nil {
		return nil, err
	}
	p := &rows.KVWriteParams{K: at(a.In[1]), V: at(a.In[2]), Cache: at(a.Out[0]), KLen: int32(c.K.Len()), VLen: int32(c.V.Len())}
	return func(s *step) error {
		p.Step = s.of(c)
		return rows.Launch(d.stream, k, s.tokens, p)
	}, nil
}

// bindInt4Write stores keys and values in the residual cache, and quantises the groups of tokens that they fill.
func bindInt4Write(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	c := n.In[0].Cache
	return d.storeInt4(n, a, kv4.StoreParams{K: at(a.In[1]), V: at(a.In[2]), KVHeads: int32(c.K.Count), Size: int32(c.K.Size), VSize: int32(c.V.Size)})
}

// storeInt4 is the store in a cache in four bits.
func (d *Device) storeInt4(n *graph.Node, a backend.Args, p kv4.StoreParams) (func(*step) error, error) {
	if err := checkInt4Pages(a.Limits); err != nil {
		return nil, err
	}
	c, residual := n.In[0].Cache, n.In[3].Cache
	p.Cache, p.Newest.Cache = at(a.Out[0]), at(a.Out[1])
	k, err := kv4.Store(d.loader, n.In[1].Type)
	return func(s *step) error {
		newest := s.of(residual)
		p.Step, p.Newest.Pages, p.Newest.Slots = s.of(c), newest.Pages, newest.Slots
		return kv4.LaunchStore(d.stream, k, s.tokens, &p)
	}, err
}

// bindLatentWrite writes rows of a latent cache.
func bindLatentWrite(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	c := n.In[0].Cache
	if size := a.Limits.PageSize; size&(size-1) != 0 || size < 4 {
		return nil, fmt.Errorf("cuda: pages of %d tokens; a power of two from 4 on is needed", size)
	}
	k, err := rows.LatentWrite(d.loader, n.In[1].Type, c.Type)
	if err != nil {
		return nil, err
	}
	p := &rows.LatentWriteParams{A: at(a.In[1]), Cache: at(a.Out[0]), ALen: int32(n.In[1].Axis.Len())}
	if len(n.In) == 3 {
		p.B, p.BLen = at(a.In[2]), int32(n.In[2].Axis.Len())
	}
	return func(s *step) error {
		p.Step = s.of(c)
		return rows.Launch(d.stream, k, s.tokens, p)
	}, nil
}

// storeBytes is the store in a cache of eight-bit numbers, of rows of type from.
func (d *Device) storeBytes(from graph.Type, c *graph.Cache, p kv8.StoreParams) (func(*step) error, error) {
	k, err := kv8.Store(d.loader, from, c.Type)
	return func(s *step) error {
		p.Step = s.of(c)
		return kv8.LaunchStore(d.stream, k, s.tokens, &p)
	}, err
}

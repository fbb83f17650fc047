package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// elements are the graph's types as package attn calls them.
var elements = map[graph.Type]attn.Element{graph.F32: attn.F32, graph.F16: attn.F16, graph.BF16: attn.BF16, graph.I8: attn.I8, graph.I4: attn.I4}

// cacheOf is a graph's cache in its memory.
func cacheOf(c *graph.Cache, b backend.Buffer, lim backend.Limits) (*attn.Cache, error) {
	if lim.PageSize%attn.Block != 0 {
		return nil, fmt.Errorf("cpu: pages of %d tokens; on the CPU they are a multiple of %d", lim.PageSize, attn.Block)
	}
	if c.Type == graph.I8 && !c.Latent && (c.K.Size%4 != 0 || c.K.Size < 8) {
		return nil, fmt.Errorf("cpu: heads of %d numbers in an int8 cache; it takes multiples of 4 from 8 on: choose --kv-type f16", c.K.Size)
	}
	if c.Type == graph.I4 && lim.PageSize%quant.Int4Group != 0 {
		return nil, fmt.Errorf("cpu: pages of %d tokens in an int4 cache; they are a multiple of %d", lim.PageSize, quant.Int4Group)
	}
	element, ok := elements[c.Type]
	if !ok {
		return nil, fmt.Errorf("cpu: there are no caches of %s on the CPU; f16, bf16, f32, i8 and i4 are possible", c.Type)
	}
	return &attn.Cache{
		Element: element, Heads: c.K.Count, KeySize: c.K.Size, ValueSize: c.V.Size, PageSize: lim.PageSize, Data: raw(b), Latent: c.Latent,
	}, nil
}

// bindKVWrite stores the step's keys and values at their slots.
func bindKVWrite(d *Device, n *graph.Node, a backend.Args) (body, error) {
	group := n.In[0].Cache.Group
	cache, err := cacheOf(n.In[0].Cache, a.Out[0], a.Limits)
	if err != nil {
		return nil, err
	}
	switch {
	case cache.Latent:
		return bindLatentWrite(d, n, a, cache), nil
	case cache.Element == attn.I4:
		return bindInt4Write(d, n, a, cache)
	}
	k, v, scratch := floats(a.In[1]), floats(a.In[2]), uint16s(a.Scratch)
	kLen, vLen, each := cache.Heads*cache.KeySize, cache.Heads*cache.ValueSize, len(scratch)/d.pool.N()
	return func(w *worker, b *backend.Batch) {
		slots := b.Table(group).Slots
		from, to := w.rowShare(len(slots))
		for r := from; r < to; r++ {
			cache.Write(d.vec, int(slots[r]), k[r*kLen:(r+1)*kLen], v[r*vLen:(r+1)*vLen], scratch[w.id*each:(w.id+1)*each])
		}
	}, nil
}

// bindLatentWrite stores the step's rows, which come in parts, at their slots of a latent cache.
func bindLatentWrite(d *Device, n *graph.Node, a backend.Args, cache *attn.Cache) body {
	group, scratch := n.In[0].Cache.Group, floats(a.Scratch)
	each := len(scratch) / d.pool.N()
	return func(w *worker, b *backend.Batch) {
		slots, row := b.Table(group).Slots, scratch[w.id*each:][:cache.KeySize]
		first, last := w.rowShare(len(slots))
		for r := first; r < last; r++ {
			at := 0
			for i, x := range n.In[1:] {
				length := x.Axis.Len()
				at += copy(row[at:], floats(a.In[1+i])[r*length:(r+1)*length])
			}
			cache.WriteLatent(d.vec, int(slots[r]), row)
		}
	}
}

// kvWriteScratch holds one head's keys or values in the cache's type, or a row of a latent cache.
func kvWriteScratch(n *graph.Node, _ backend.Limits) int64 {
	c := n.In[0].Cache
	switch {
	case c.Latent:
		return (4*int64(c.K.Size) + 63) / 64 * 64
	case c.Type == graph.I4:
		return int4Scratch(c)
	}
	return (2*int64(max(c.K.Size, c.V.Size)) + 63) / 64 * 64 // whole cache lines
}

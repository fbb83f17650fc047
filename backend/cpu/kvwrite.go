package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// pages is a cache's memory. A page holds the keys of its tokens, then their values, in both parts head by head: the
// rows that one head reads lie together.
type pages struct {
	cache    *graph.Cache
	buf      backend.Buffer
	pageSize int
}

// keys is where the first key row of a head in a page starts, in elements; the head's next token is K.Size further.
func (p pages) keys(page, head int) int {
	return page*p.pageSize*(p.cache.K.Len()+p.cache.V.Len()) + head*p.pageSize*p.cache.K.Size
}

// values is the same for values.
func (p pages) values(page, head int) int {
	return page*p.pageSize*(p.cache.K.Len()+p.cache.V.Len()) + p.pageSize*p.cache.K.Len() + head*p.pageSize*p.cache.V.Size
}

// load copies len(dst) elements from element at on into dst, as F32.
func (p pages) load(dst []float32, at int) {
	switch p.cache.Type {
	case graph.F32:
		copy(dst, floats(p.buf)[at:])
	case graph.F16:
		quant.Decode(quant.F16, dst, raw(p.buf)[2*at:2*(at+len(dst))])
	case graph.BF16:
		quant.Decode(quant.BF16, dst, raw(p.buf)[2*at:2*(at+len(dst))])
	}
}

// store rounds src to the cache's type at element at.
func (p pages) store(at int, src []float32) {
	switch p.cache.Type {
	case graph.F32:
		copy(floats(p.buf)[at:], src)
	case graph.F16:
		for i, x := range src {
			halves(p.buf)[at+i] = quant.F32ToF16(x)
		}
	case graph.BF16:
		for i, x := range src {
			halves(p.buf)[at+i] = quant.F32ToBF16(x)
		}
	}
}

// bindKVWrite stores the step's keys and values at their slots.
func bindKVWrite(_ vec.Ops, n *graph.Node, a backend.Args) body {
	c := n.In[0].Cache
	p := pages{c, a.Out[0], a.Limits.PageSize}
	k, v := floats(a.In[1]), floats(a.In[2])
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Slots), 1)
		for r := from; r < to; r++ {
			page, at := int(b.Slots[r])/p.pageSize, int(b.Slots[r])%p.pageSize
			for h := range c.K.Count {
				p.store(p.keys(page, h)+at*c.K.Size, k[r*c.K.Len()+h*c.K.Size:][:c.K.Size])
				p.store(p.values(page, h)+at*c.V.Size, v[r*c.V.Len()+h*c.V.Size:][:c.V.Size])
			}
		}
	}
}

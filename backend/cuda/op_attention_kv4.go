package cuda

import (
	"fmt"
	"math/bits"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/decode"
	prefillsm80 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm80"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/simt"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv4"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// A cache in four bits comes with its residual cache, which has the newest tokens in IEEE halves. A query reads the tokens of its own group there, and those before it in
// four bits: of one new token both in one kernel, which combines its parts as those of split-KV; of prompts the latter dequantised to scratch memory, as
// eight-bit caches are.

// int4Attentions lists the ways to compute attention over such a cache.
func (d *Device) int4Attentions(n *graph.Node) []backend.Kernel {
	c := n.In[1].Cache
	if max(c.K.Size, c.V.Size) > kv4.MaxSize {
		return nil
	}
	fallback := d.one("attention simt, int4", bindInt4SIMT)
	if n.In[0].Type != graph.BF16 || !decode.FitsInt4(c.K.Size, c.V.Size) {
		return fallback
	}
	fast := kernel{dev: d, name: "attention split, int4, mma", bind: bindInt4Flash, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		return max(decode.PartialBytes(d.ctx.SMs, lim.Seqs, decodeProblem(n, backend.Args{})), dequantisedPagesBytes(c, lim))
	}}
	return append([]backend.Kernel{fast}, fallback...)
}

func bindInt4SIMT(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	return d.bindInt4Rows(n, a, false)
}

// bindInt4Rows is the kernel that takes any step; with onlyTrees, it leaves alone what has no token tree.
func (d *Device) bindInt4Rows(n *graph.Node, a backend.Args, onlyTrees bool) (func(*step) error, error) {
	if err := checkInt4Pages(a.Limits); err != nil {
		return nil, err
	}
	o, q, c, residual := n.Op.(graph.Attention), n.In[0], n.In[1].Cache, n.In[2].Cache
	k, err := simt.FindInt4(d.loader, q.Type)
	if err != nil {
		return nil, err
	}
	p := &simt.Int4Params{
		Q: at(a.In[0]), Cache: at(a.In[1]), Newest: at(a.In[2]), Y: at(a.Out[0]),
		Heads: int32(q.Axis.Count), KVHeads: int32(c.K.Count), KSize: int32(c.K.Size), VSize: int32(c.V.Size),
		Window: int32(windowOf(o, c)), Scale: float32(o.Scale), Softcap: float32(o.Softcap),
	}
	if onlyTrees {
		p.OnlyTrees = 1
	}
	p.Sinks, err = d.sinks(a)
	return func(s *step) error {
		p.Step, p.NewestPages, p.TreeLen, p.Ancestors = s.of(c), s.of(residual).Pages, s.treeLen, s.ancestors
		return simt.LaunchInt4(d.stream, k, s.tokens, p)
	}, err
}

// checkInt4Pages: a group of tokens lies in one page.
func checkInt4Pages(lim backend.Limits) error {
	if size := lim.PageSize; size&(size-1) != 0 || size < quant.Int4Group {
		return fmt.Errorf("cuda: pages of %d tokens in an int4 cache; a power of two from %d on is needed", size, quant.Int4Group)
	}
	return nil
}

// bindInt4Flash joins the kernels for sequences with one new token, with many, and with token trees.
func bindInt4Flash(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	all, err := bindInt4SIMT(d, n, a)
	if err != nil || decode.Counters(a.Limits.Seqs, decodeProblem(n, a)) > counters {
		return all, err
	}
	p := decodeProblem(n, a)
	if p.Sinks, err = d.sinks(a); err != nil {
		return nil, err
	}
	one, err := decode.NewInt4(d.loader, p, at(a.In[2]), at(a.Scratch), d.counters)
	if err != nil {
		return nil, err
	}
	many, err := d.bindInt4Prompts(n, a, p)
	if err != nil {
		return nil, err
	}
	trees, err := d.bindInt4Rows(n, a, true)
	c, residual, chunked := n.In[1].Cache, n.In[2].Cache, n.Op.(graph.Attention).Chunked
	return func(s *step) error {
		if s.tiles > 0 && chunked && s.longestPrompt() > c.Window { // prompts of several chunks are no work for the tensor cores' kernel
			return all(s)
		}
		if s.trees > 0 {
			if err := trees(s); err != nil {
				return err
			}
		}
		if s.tiles > 0 {
			if err := many(s); err != nil {
				return err
			}
		}
		if s.decodes > 0 {
			view := s.of(c)
			return one.Launch(d.stream, &view, s.of(residual).Pages, s.seqs)
		}
		return nil
	}, err
}

// bindInt4Prompts is the attention of sequences with many new tokens; p is as if the cache were read where it lies.
func (d *Device) bindInt4Prompts(n *graph.Node, a backend.Args, p decode.Problem) (func(*step) error, error) {
	c, residual, room := n.In[1].Cache, n.In[2].Cache, dequantisedPages(a.Limits)
	open, err := kv4.Dequantise(d.loader)
	if err != nil {
		return nil, err
	}
	attend, err := prefillsm80.NewInt4(d.loader, prefillsm90.Problem{
		Q: p.Q, Cache: at(a.Scratch), Y: p.Y, Sinks: p.Sinks, Heads: p.Heads, KVHeads: p.KVHeads, KSize: p.KSize, VSize: p.VSize,
		Window: max(p.Window, 0), Scale: p.Scale, Softcap: p.Softcap,
	})
	o := &kv4.DequantiseParams{
		Cache: at(a.In[1]), Pages16: at(a.Scratch), Table: at(a.Scratch) + driver.Ptr(room*kv8.PageSize*2*(c.K.Len()+c.V.Len())),
		Heads: int32(c.K.Count), KSize: int32(c.K.Size), VSize: int32(c.V.Size), Window: int32(max(p.Window, 0)),
	}
	newest := prefillsm80.Newest{Cache: at(a.In[2]), Shift: int32(bits.Len(uint(a.Limits.PageSize)) - 1)}
	return func(s *step) error {
		step := s.of(c)
		newest.Pages, newest.SeqPages = s.of(residual).Pages, step.SeqPages
		return eachOpened(s, room, func(g group, tiles int) error {
			o.Step, o.FirstSeq, o.Pages = step, int32(g.first), int32(g.longest)
			if err := kv4.LaunchDequantise(d.stream, open, g.last-g.first+1, o); err != nil {
				return err
			}
			view := dequantisedStep(step, o.Table, o.Pages, tiles)
			return attend.Launch(d.stream, &view, newest, g.tiles, g.pages*kv8.PageSize)
		})
	}, err
}

package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/decode"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/heads512"
	prefillsm80 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm80"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/simt"
	"github.com/ridge-llm/ridge/graph"
)

// attentions lists the ways to compute attention, the fastest first.
func (d *Device) attentions(n *graph.Node) []backend.Kernel {
	c := n.In[1].Cache
	if c.Type == graph.I4 {
		return d.int4Attentions(n)
	}
	if c.K.Size > simt.MaxSize || c.V.Size > simt.MaxSize {
		return nil
	}
	fallback := d.one("attention simt", bindAttention)
	if plainLatent(n) {
		return append(d.latentAttention(n, "attention latent, mma", bindLatent), fallback...)
	}
	if p, ok := heads512Problem(n, backend.Args{}); ok {
		return append([]backend.Kernel{kernel{dev: d, name: "attention of large heads, mma", bind: bindHeads512, scratch: func(_ *graph.Node, lim backend.Limits) int64 {
			return heads512.PartialBytes(d.loader.SMs(), lim.Seqs, p)
		}}}, fallback...)
	}
	if n.In[0].Type != graph.BF16 || c.Latent || n.Op.(graph.Attention).Reach > 0 || !decode.Fits(c.K.Size, c.V.Size, c.Type) || !prefillsm80.Fits(c.K.Size, c.V.Size) {
		return fallback
	}
	name := "attention split, mma"
	if d.hopper() {
		name = "attention split, wgmma"
	}
	fast := kernel{dev: d, name: name, bind: bindFlash, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		bytes := decode.PartialBytes(d.ctx.SMs, lim.Seqs, decodeProblem(n, backend.Args{}))
		if eightBit(c.Type) {
			bytes = max(bytes, dequantisedPagesBytes(c, lim))
		}
		return bytes
	}}
	return append([]backend.Kernel{fast}, fallback...)
}

// partialAttentions lists the ways to attend to some of the keys.
func (d *Device) partialAttentions(n *graph.Node) []backend.Kernel {
	if c := n.In[1].Cache; max(c.K.Size, c.V.Size) > simt.MaxSize || c.Type == graph.I4 || n.Out[0].Type != graph.F32 {
		return nil
	}
	return d.one("partial attention simt", bindAttention)
}

func bindAttention(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	return d.bindSIMTAttention(n, a, false)
}

// bindSIMTAttention is the kernel that takes any step; with onlyTrees, it leaves alone what has no token tree.
func (d *Device) bindSIMTAttention(n *graph.Node, a backend.Args, onlyTrees bool) (func(*step) error, error) {
	o, _ := graph.AttentionOf(n)
	q, c, find := n.In[0], n.In[1].Cache, simt.Find
	if _, partial := n.Op.(graph.PartialAttention); partial {
		find = simt.FindPartial
	}
	k, err := find(d.loader, q.Type, c.Type)
	if err != nil {
		return nil, err
	}
	sinks, err := d.sinks(a)
	if err != nil {
		return nil, err
	}
	p := &simt.Params{
		Q: at(a.In[0]), Cache: at(a.In[1]), Y: at(a.Out[0]), Sinks: sinks,
		Heads: int32(q.Axis.Count), KVHeads: int32(c.K.Count), KSize: int32(c.K.Size), VSize: int32(c.V.Size),
		Window: int32(windowOf(o, c)), Scale: float32(o.Scale), Softcap: float32(o.Softcap),
	}
	if o.Bidirectional {
		p.Bidirectional = 1 + int32(o.Reach)
	}
	if c.Latent {
		p.Latent = 1
	}
	if onlyTrees {
		p.OnlyTrees = 1
	}
	return func(s *step) error {
		p.Step, p.TreeLen, p.Ancestors, p.Seen = s.of(c), s.treeLen, s.ancestors, s.seen
		return simt.Launch(d.stream, k, s.tokens, p)
	}, nil
}

// windowOf is a cache's window as kernels have it: below 0 where it is the length of chunks.
func windowOf(o graph.Attention, c *graph.Cache) int {
	if o.Chunked {
		return -c.Window
	}
	return c.Window
}

// sinks is the address of a node's sinks, [heads] float32, 0 when it has none.
func (d *Device) sinks(a backend.Args) (driver.Ptr, error) {
	if len(a.Weights) == 0 {
		return 0, nil
	}
	return d.vector(a.Weights[0])
}

// decodeProblem is the node as the decode kernel sees it; without memory it serves to size the scratch.
func decodeProblem(n *graph.Node, a backend.Args) decode.Problem {
	o, q, c := n.Op.(graph.Attention), n.In[0], n.In[1].Cache
	p := decode.Problem{
		Heads: q.Axis.Count, KVHeads: c.K.Count, KSize: c.K.Size, VSize: c.V.Size,
		Window: windowOf(o, c), Scale: o.Scale, Softcap: o.Softcap, Type: c.Type,
	}
	if len(a.In) >= 2 {
		p.Q, p.Cache, p.Y = at(a.In[0]), at(a.In[1]), at(a.Out[0])
	}
	return p
}

// bindFlash joins the kernel for sequences with one new token, the one for sequences with many, and the one for those with token trees; a
// step may have all.
func bindFlash(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	if a.Limits.PageSize < decode.MinPage || decode.Counters(a.Limits.Seqs, decodeProblem(n, a)) > counters {
		return bindAttention(d, n, a)
	}
	sinks, err := d.sinks(a)
	if err != nil {
		return nil, err
	}
	p := decodeProblem(n, a)
	p.Sinks = sinks
	one, err := decode.New(d.loader, p, at(a.Scratch), d.counters)
	if err != nil {
		return nil, err
	}
	many, err := d.bindPrompts(n, a, p)
	if err != nil {
		return nil, err
	}
	trees, err := d.bindSIMTAttention(n, a, true)
	if err != nil {
		return nil, err
	}
	o, all := n.Op.(graph.Attention), trees
	if o.Chunked { // prompts of several chunks are no work for the tensor cores' kernels
		if all, err = bindAttention(d, n, a); err != nil {
			return nil, err
		}
	}
	return func(s *step) error {
		if s.trees > 0 {
			if err := trees(s); err != nil {
				return err
			}
		}
		if s.tiles > 0 {
			prompts := many
			if o.Chunked && s.longestPrompt() > n.In[1].Cache.Window {
				prompts = all
			}
			if err := prompts(s); err != nil {
				return err
			}
		}
		if s.decodes > 0 {
			view := s.of(n.In[1].Cache)
			return one.Launch(d.stream, &view, s.seqs)
		}
		return nil
	}, nil
}

// prompts is a kernel for sequences with many new tokens: see prefillsm90.Kernel.
type prompts interface {
	Launch(s *driver.Stream, step *kernels.Step, tiles, tokens int) error
}

// findPrompts binds the fastest one.
func (d *Device) findPrompts(p prefillsm90.Problem) (prompts, error) {
	switch {
	case !d.hopper():
		return prefillsm80.New(d.loader, p)
	case prefillsm90.Fits(p.KSize, p.VSize):
		return prefillsm90.New(d.loader, p)
	}
	return prefillsm80.NewLargeHeads(d.loader, p)
}

// bindPrompts is the attention of sequences with many new tokens on the tensor cores.
func (d *Device) bindPrompts(n *graph.Node, a backend.Args, p decode.Problem) (func(*step) error, error) {
	problem := prefillsm90.Problem{
		Q: p.Q, Cache: p.Cache, Y: p.Y, Sinks: p.Sinks, Heads: p.Heads, KVHeads: p.KVHeads, KSize: p.KSize, VSize: p.VSize,
		Tokens: a.Limits.Tokens, Pages: a.Limits.GroupPages(n.In[1].Cache.Group), PageSize: a.Limits.PageSize, TileCounter: d.counters,
		Window: max(p.Window, 0), Bidirectional: n.Op.(graph.Attention).Bidirectional, Scale: p.Scale, Softcap: p.Softcap, Type: p.Type,
	}
	if eightBit(p.Type) {
		return d.bindKV8Prompts(n.In[1].Cache, a, problem)
	}
	k, err := d.findPrompts(problem)
	return func(s *step) error {
		tokens := 0
		for _, p := range s.prompts {
			tokens += p.length
		}
		view := s.of(n.In[1].Cache)
		return k.Launch(d.stream, &view, s.tiles, tokens)
	}, err
}

package cuda

import (
	"errors"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/graph"
)

// A launch costs one to three microseconds of a GPU that reads four gigabytes in a millisecond, so the graph has one node for what one
// kernel computes (pass.Fuse). Many such kernels are only for steps of few rows, or are faster only there: of a step of more rows the
// node's parts are launched one by one. What they hand to one another then lies in the node's scratch memory.

// part is one operation of a fused node with its memory.
type part struct {
	node *graph.Node
	args backend.Args
	put  func(*step) error // launches it by itself; nil unless alone has bound it
}

// fusion is how nodes of a kind are computed.
type fusion struct {
	name string
	fits func(d *Device, n *graph.Node, parts []*graph.Node) bool // for parts that the GPU has kernels for
	held func(parts []*graph.Node) []*graph.Node                  // parts whose results need memory where they stay within the node
	bind func(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error)
}

// fusionOf is the table of what is fused.
func fusionOf(k graph.Kind) (f fusion, ok bool) {
	all := func(parts []*graph.Node) []*graph.Node { return parts }
	none := func([]*graph.Node) []*graph.Node { return nil }
	switch k {
	case graph.LinearGroup:
		return fusion{"linear, group", fitsLinearGroup, none, bindLinearGroup}, true
	case graph.AdaptedLinear:
		return fusion{"linear, lora", fitsAdaptedLinear, heldAdaptedLinear, bindAdaptedLinear}, true
	case graph.OutlierLinear:
		return fusion{"linear, outliers", fitsOutlierLinear, heldOutlierLinear, bindOutlierLinear}, true
	case graph.NormLinear:
		return fusion{"rmsnorm, linear", fitsNormLinear, none, bindLinearGroup}, true
	case graph.GatedLinear:
		return fusion{"linear, gated", fitsGatedLinear, heldGatedLinear, bindGatedLinear}, true
	case graph.LinearAddNorm:
		return fusion{"linear, add, rmsnorm", fitsLinearAddNorm, all, bindLinearAddNorm}, true
	case graph.MoEAddNorm:
		return fusion{"moe, add, rmsnorm", fitsMoEAddNorm, all, bindMoEAddNorm}, true
	case graph.AddNormRouter:
		return fusion{"add, rmsnorm, router", fitsAddNormRouter, all, bindAddNormRouter}, true
	case graph.NormQuantize:
		return fusion{"rmsnorm, quantize", fitsNormQuantize, none, bindNormQuantize}, true
	case graph.GatedNorm:
		return fusion{"rmsnorm, gated", fitsGatedNorm, none, bindGatedNorm}, true
	case graph.RoPEKVWrite:
		return fusion{"rope, kvwrite", fitsRoPEKVWrite, none, bindRoPEKVWrite}, true
	case graph.RoPEAttention, graph.HeadNormAttention:
		return fusion{"rope, kvwrite, attention", fitsRoPEAttention, heldRoPEAttention, bindRoPEAttention}, true
	}
	return fusion{}, false
}

// fused lists the ways to compute a fused node.
func (d *Device) fused(n *graph.Node) []backend.Kernel {
	parts := graph.Parts(n)
	if n.Op.(*graph.Fused).Kind == graph.AllReduceAddNorm {
		return d.reduceNorms(parts)
	}
	for _, p := range parts {
		if len(d.Kernels(p)) == 0 {
			return nil
		}
	}
	f, ok := fusionOf(n.Op.(*graph.Fused).Kind)
	if !ok || !f.fits(d, n, parts) {
		return nil
	}
	return []backend.Kernel{fusedKernel{d, f}}
}

// fusedKernel is the way to compute nodes of a kind.
type fusedKernel struct {
	dev *Device
	fusion
}

// Name implements backend.Kernel.
func (k fusedKernel) Name() string { return k.name }

// Scratch implements backend.Kernel.
func (k fusedKernel) Scratch(n *graph.Node, lim backend.Limits) int64 {
	bytes, _ := k.divide(n, backend.Args{Limits: lim})
	return bytes
}

// divide gives the parts of a node their memory: what the node reads and makes, and pieces of its scratch, of which there are so many bytes.
func (k fusedKernel) divide(n *graph.Node, a backend.Args) (bytes int64, parts []*part) {
	take := func(size int64) backend.Buffer {
		b := a.Scratch.Slice(bytes, size)
		bytes += (size + 255) &^ 255
		return b
	}
	at := map[*graph.Value]backend.Buffer{}
	for i, v := range n.In {
		if a.In != nil {
			at[v] = a.In[i]
		}
	}
	for i, v := range n.Out {
		if a.Out != nil {
			at[v] = a.Out[i]
		}
	}
	placed := map[*graph.Weight]backend.Weight{}
	for i, w := range n.Weights {
		if a.Weights != nil {
			placed[w] = a.Weights[i]
		}
	}
	nodes := graph.Parts(n)
	held := k.held(nodes)
	for _, node := range nodes {
		p := &part{node: node, args: backend.Args{Limits: a.Limits}}
		for _, v := range node.In {
			p.args.In = append(p.args.In, at[v])
		}
		for _, v := range node.Out {
			if v.From == node && v.Cache == nil && slices.Contains(held, node) { // within the node
				at[v] = take(int64(a.Limits.Rows(v.Rows)) * v.RowBytes())
			}
			p.args.Out = append(p.args.Out, at[v])
		}
		for _, w := range node.Weights {
			p.args.Weights = append(p.args.Weights, placed[w])
		}
		if size := k.dev.Kernels(node)[0].Scratch(node, a.Limits); size > 0 {
			p.args.Scratch = take(size)
		}
		parts = append(parts, p)
	}
	return bytes, parts
}

// Bind implements backend.Kernel.
func (k fusedKernel) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	_, parts := k.divide(n, a)
	var l *launch
	err := k.dev.do(func() (err error) {
		k.dev.steps.need(a.Limits)
		if l, err = k.bind(k.dev, n, a, parts); err != nil {
			return err
		}
		if readsAsTheyAre(n) {
			readAsTheyAre(a.Weights)
		}
		l.text = n.Out[0].Name
		return k.dev.loadSampler(n)
	})
	return l, err
}

// alone binds parts of a fused node so that they can be launched by themselves.
func (d *Device) alone(parts ...*part) error {
	for _, p := range parts {
		k, ok := d.Kernels(p.node)[0].(kernel)
		if !ok {
			return errors.New("cuda: a part of a fused node is fused")
		}
		var err error
		if p.put, err = k.bind(d, p.node, p.args); err != nil {
			return err
		}
	}
	return nil
}

// oneByOne launches parts by themselves.
func oneByOne(s *step, parts ...*part) error {
	for _, p := range parts {
		if err := p.put(s); err != nil {
			return err
		}
	}
	return nil
}

// links is what the launches of a program tell one another once all are bound: of each deferred norm, whether all that read it can scale
// rows themselves, and if so the product that leaves them unscaled.
type links struct {
	cannot   map[*graph.Value]bool
	unscaled map[*graph.Value]*packed.Kernel
}

// ready gives the launches of a program as they are put on the stream: linked, and with weights and kernels there. It is done once for
// each program.
func (d *Device) ready(launches []backend.Launch) ([]*launch, error) {
	if len(launches) == 0 {
		return nil, nil
	}
	st := d.steps
	if list := st.ready[&launches[0]]; list != nil {
		return list, nil
	}
	list := make([]*launch, len(launches))
	to := links{map[*graph.Value]bool{}, map[*graph.Value]*packed.Kernel{}}
	for i, l := range launches {
		list[i] = l.(*launch)
		if p := list[i].prologue; p != nil && !p.scales {
			to.cannot[p.norm] = true
		}
	}
	for _, l := range list {
		if l.link == nil {
			continue
		}
		if err := l.link(to); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(d.upload.wait(), d.loader.Wait()); err != nil { // a program's last weights and kernels have been asked for
		return nil, err
	}
	for _, g := range d.groups { // kernels that wait for other ranks must not keep one that shares their GPU from loading its own
		if !slices.ContainsFunc(list, func(l *launch) bool { return l.of == g }) {
			continue // other ranks may have no such launches
		}
		if err := g.barrier(); err != nil {
			return nil, err
		}
	}
	st.ready[&launches[0]] = list
	return list, nil
}

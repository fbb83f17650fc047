package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// body computes a worker's share of a node on a batch.
type body func(w *worker, b *backend.Batch)

// kernel is one way to compute an op: bind fixes its memory, scratch says how many bytes each thread needs.
type kernel struct {
	name    string
	scratch func(n *graph.Node, lim backend.Limits) int64
	bind    func(n *graph.Node, a backend.Args) body
	threads int
}

// Name implements backend.Kernel.
func (k kernel) Name() string { return k.name }

// Scratch implements backend.Kernel.
func (k kernel) Scratch(n *graph.Node, lim backend.Limits) int64 {
	if k.scratch == nil {
		return 0
	}
	return int64(k.threads) * k.scratch(n, lim)
}

// Bind implements backend.Kernel.
func (k kernel) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	return &launch{text: n.Out[0].Name, run: k.bind(n, a)}, nil
}

// Kernels implements backend.Device. The table below is all the CPU can do; activations are F32.
func (d *Device) Kernels(n *graph.Node) []backend.Kernel {
	for _, list := range [][]*graph.Value{n.In, n.Out} {
		for _, v := range list {
			if v.Cache == nil && v.Type != graph.F32 {
				return nil
			}
		}
	}
	k := kernel{threads: len(d.pool.workers)}
	switch n.Op.(type) {
	case graph.Embed:
		k.name, k.bind = "embed", bindEmbed
	case graph.Linear:
		k.name, k.bind, k.scratch = "linear f32 blocked", bindLinear, linearScratch
	case graph.RMSNorm:
		k.name, k.bind = "rmsnorm", bindRMSNorm
	case graph.AddNorm:
		k.name, k.bind = "add+rmsnorm", bindAddNorm
	case graph.LayerNorm:
		k.name, k.bind = "layernorm", bindLayerNorm
	case graph.Angles:
		k.name, k.bind = "angles", bindAngles
	case graph.RoPE:
		k.name, k.bind = "rope", bindRoPE
	case graph.KVWrite:
		k.name, k.bind = "kvwrite", bindKVWrite
	case graph.Attention:
		k.name, k.bind, k.scratch = "attention tiled", bindAttention, attentionScratch
	case graph.Act:
		k.name, k.bind = "act", bindAct
	case graph.ActMul:
		k.name, k.bind = "actmul", bindActMul
	case graph.Add:
		k.name, k.bind = "add", bindAdd
	case graph.Softcap:
		k.name, k.bind = "softcap", bindSoftcap
	case graph.Pick:
		k.name, k.bind = "pick", bindPick
	default:
		return nil
	}
	return []backend.Kernel{k}
}

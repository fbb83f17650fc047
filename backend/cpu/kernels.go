package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// body computes a worker's share of a node on a batch.
type body func(w *worker, b *backend.Batch)

// bind fixes a node's memory and gives what computes it.
type bind func(d *Device, n *graph.Node, a backend.Args) (body, error)

// kernel is one way to compute an op; scratch says how many bytes each thread needs.
type kernel struct {
	dev       *Device
	name      string
	scratch   func(n *graph.Node, lim backend.Limits) int64
	bind      bind
	partition partition
	rowBlocks bool // see launch
}

// Name implements backend.Kernel.
func (k kernel) Name() string { return k.name }

// Scratch implements backend.Kernel.
func (k kernel) Scratch(n *graph.Node, lim backend.Limits) int64 {
	if k.scratch == nil {
		return 0
	}
	return int64(k.dev.pool.N()) * k.scratch(n, lim)
}

// Bind implements backend.Kernel.
func (k kernel) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	run, err := k.bind(k.dev, n, a)
	l := &launch{text: n.Out[0].Name, run: run, accesses: accessesOf(n, a, k.partition), rowBlocks: k.rowBlocks, q8: k.dev.scaleGroupsOf(n)}
	if _, ok := n.Op.(graph.Linear); ok {
		if m, ok := a.Weights[0].(*matrix); ok {
			l.weights = m.weights
		}
	}
	return l, err
}

// simple is a bind that needs only the device's vector kernels, and cannot fail.
func simple(f func(o vec.Ops, n *graph.Node, a backend.Args) body) bind {
	return func(d *Device, n *graph.Node, a backend.Args) (body, error) { return f(d.vec, n, a), nil }
}

// Kernels implements backend.Device. The table below is all the CPU can do; activations are F32, and Q8 where a matrix
// in a block format reads them.
func (d *Device) Kernels(n *graph.Node) []backend.Kernel {
	for _, list := range [][]*graph.Value{n.In, n.Out} {
		for _, v := range list {
			if v.Cache == nil && v.Type != graph.F32 && v.Type != graph.Q8 {
				return nil
			}
		}
	}
	k := kernel{dev: d}
	switch n.Op.(type) {
	case graph.Embed:
		k.partition = byRows
		k.name, k.bind = "embed", simple(bindEmbed)
	case graph.Linear:
		k.name, k.bind, k.scratch = d.linear(n)
	case graph.LoRA:
		k.name, k.bind, k.scratch = "lora "+d.tier.String(), bindLoRA, d.loraScratch
	case graph.LoRAEmbed:
		k.partition = byRows
		k.name, k.bind = "lora embed", simple(bindLoRAEmbed)
	case graph.Quantize:
		k.rowBlocks, k.partition = true, quantizePartition(n)
		k.name, k.bind = "quantize "+d.tier.String(), bindQuantize
	case graph.RMSNorm:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "rmsnorm", simple(bindRMSNorm)
	case graph.AddNorm:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "add+rmsnorm", simple(bindAddNorm)
	case graph.LayerNorm:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "layernorm", simple(bindLayerNorm)
	case graph.Angles:
		k.partition = byRows
		k.name, k.bind = "angles", simple(bindAngles)
	case graph.RoPE:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "rope", simple(bindRoPE)
	case graph.KVWrite:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind, k.scratch = "kvwrite", bindKVWrite, kvWriteScratch
	case graph.Attention:
		k.name, k.bind, k.scratch = "attention "+d.tier.String(), bindAttention, d.attentionScratch
	case graph.MoE:
		k.name, k.bind, k.scratch = d.moeKernel(n), bindMoE, d.moeScratchBytes
	case graph.HeadLinear:
		k.name, k.bind, k.scratch = d.headLinearKernel(n), bindHeadLinear, headLinearScratch
	case graph.TopKeys:
		k.partition = byRows
		k.name, k.bind, k.scratch = "top keys", bindTopKeys, topKeysScratch
	case graph.SparseAttention:
		k.partition = byRows
		k.name, k.bind, k.scratch = "sparse attention "+d.tier.String(), bindSparseAttention, d.sparseScratch
	case graph.Route:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "route", bindRoute
	case graph.GateRows:
		k.rowBlocks, k.partition = true, byRows
		k.name, k.bind = "gate rows", simple(bindGateRows)
	case graph.Act:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "act", simple(bindAct)
	case graph.ActMul:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "actmul", simple(bindActMul)
	case graph.Add:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "add", simple(bindAdd)
	case graph.Softcap:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "softcap", simple(bindSoftcap)
	case graph.Scale:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "scale", simple(bindScale)
	case graph.XIELU:
		k.rowBlocks, k.partition = true, byColumns
		k.name, k.bind = "xielu", simple(bindXIELU)
	case graph.CausalConv:
		k.partition = byColumns
		k.name, k.bind = "causal conv", simple(bindCausalConv)
	case graph.GatedDelta:
		k.name, k.bind, k.scratch = "gated delta", bindGatedDelta, gatedDeltaScratch
	case graph.KimiDelta:
		k.name, k.bind, k.scratch = "kimi delta", bindKimiDelta, kimiDeltaScratch
	case graph.SSD:
		k.name, k.bind, k.scratch = "ssd", bindSSD, ssdScratch
	case graph.SelectiveScan:
		k.name, k.bind, k.scratch = "selective scan", bindSelectiveScan, selectiveScanScratch
	case graph.SelectRows:
		k.name, k.bind = "select rows", simple(bindSelectRows)
	default:
		k.rowBlocks, k.partition = true, byRows
		if k.name, k.bind = streamKernel(n.Op); k.bind == nil {
			return nil
		}
	}
	return []backend.Kernel{k}
}

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
	into      func(l *launch, n *graph.Node, a backend.Args) error // in place of bind, where a schedule looks into the launch
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
	l := &launch{dev: k.dev, text: n.Out[0].Name, accesses: accessesOf(n, a, k.partition), rowBlocks: k.rowBlocks, q8: k.dev.scaleGroupsOf(n)}
	var err error
	if k.into != nil {
		err = k.into(l, n, a)
	} else {
		l.run, err = k.bind(k.dev, n, a)
	}
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

// Kernels implements backend.Device. Activations are F32, and Q8 where a matrix in a block format reads them.
func (d *Device) Kernels(n *graph.Node) []backend.Kernel {
	for _, list := range [][]*graph.Value{n.In, n.Out} {
		for _, v := range list {
			if v.Cache == nil && v.Type != graph.F32 && v.Type != graph.Q8 {
				return nil
			}
		}
	}
	for _, find := range []func(*graph.Node) kernel{d.matrixKernel, d.cacheKernel, d.stateKernel, d.rowKernel, pointwiseKernel} {
		if k := find(n); k.bind != nil || k.into != nil {
			k.dev = d
			return []backend.Kernel{k}
		}
	}
	return nil
}

// matrixKernel is the kernel of a product with matrices; nothing binds it if n is none.
func (d *Device) matrixKernel(n *graph.Node) (k kernel) {
	switch n.Op.(type) {
	case graph.Embed:
		k.partition = byRows
		k.name, k.bind = "embed", simple(bindEmbed)
	case graph.Linear:
		k = d.linearKernel(n)
	case graph.LoRA:
		k.name, k.into, k.scratch = "lora "+d.tier.String(), bindLoRA, d.loraScratch
	case graph.LoRAHeads:
		k.name, k.bind = "lora heads "+d.tier.String(), bindLoRAHeads
	case graph.LoRAEmbed:
		k.partition = byRows
		k.name, k.bind = "lora embed", simple(bindLoRAEmbed)
	case graph.MoE, graph.AdaptedMoE:
		k.name, k.bind, k.scratch = d.moeKernel(n), bindMoE, d.moeScratchBytes
	case graph.HeadLinear:
		k.name, k.bind, k.scratch = d.headLinearKernel(n), bindHeadLinear, headLinearScratch
	}
	return k
}

// cacheKernel is the kernel of an op on caches of keys and values.
func (d *Device) cacheKernel(n *graph.Node) (k kernel) {
	switch o := n.Op.(type) {
	case *graph.Fused:
		if o.Kind == graph.LatentAttention {
			k.name, k.bind, k.scratch = "latent attention "+d.tier.String(), bindLatentAttention, d.latentScratch
		}
	case graph.KVWrite:
		if n.In[0].Cache.Type != graph.I4 { // whose groups are made of rows of all workers
			k.rowBlocks, k.partition = true, byRows
		}
		k.name, k.bind, k.scratch = "kvwrite", bindKVWrite, kvWriteScratch
	case graph.Attention, graph.PartialAttention:
		k.name, k.bind, k.scratch = "attention "+d.tier.String(), bindAttention, d.attentionScratch
	case graph.TopKeys:
		k.partition = byRows
		k.name, k.bind, k.scratch = "top keys", bindTopKeys, topKeysScratch
	case graph.SparseAttention:
		k.partition = byRows
		k.name, k.bind, k.scratch = "sparse attention "+d.tier.String(), bindSparseAttention, d.sparseScratch
	}
	return k
}

// stateKernel is the kernel of an op on recurrent states.
func (d *Device) stateKernel(n *graph.Node) (k kernel) {
	switch n.Op.(type) {
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
	}
	return k
}

// rowKernel is the kernel of an op that treats each row for itself.
func (d *Device) rowKernel(n *graph.Node) kernel {
	k := kernel{rowBlocks: true, partition: byRows}
	switch n.Op.(type) {
	case graph.RMSNorm:
		k.name, k.bind = "rmsnorm", simple(bindRMSNorm)
	case graph.AddNorm:
		k.name, k.bind = "add+rmsnorm", simple(bindAddNorm)
	case graph.LayerNorm:
		k.name, k.bind = "layernorm", simple(bindLayerNorm)
	case graph.RoPE:
		k.name, k.bind = "rope", simple(bindRoPE)
	case graph.Route:
		k.name, k.bind = "route", bindRoute
	case graph.GateRows:
		k.name, k.bind = "gate rows", simple(bindGateRows)
	case graph.Quantize:
		k.partition = quantizePartition(n)
		k.name, k.bind = "quantize "+d.tier.String(), bindQuantize
	case graph.Angles:
		k.rowBlocks = false
		k.name, k.bind = "angles", simple(bindAngles)
	case graph.SelectRows:
		k.rowBlocks, k.partition = false, anyPartition
		k.name, k.bind = "select rows", simple(bindSelectRows)
	default:
		k.name, k.bind = streamKernel(n.Op)
	}
	return k
}

// pointwiseKernel is the kernel of an op that treats each number for itself.
func pointwiseKernel(n *graph.Node) kernel {
	k := kernel{rowBlocks: true, partition: byColumns}
	switch n.Op.(type) {
	case graph.Act:
		k.name, k.bind = "act", simple(bindAct)
	case graph.ActMul:
		k.name, k.bind = "actmul", simple(bindActMul)
	case graph.Add:
		k.name, k.bind = "add", simple(bindAdd)
	case graph.Softcap:
		k.name, k.bind = "softcap", simple(bindSoftcap)
	case graph.Scale:
		k.name, k.bind = "scale", simple(bindScale)
	case graph.XIELU:
		k.name, k.bind = "xielu", simple(bindXIELU)
	}
	return k
}

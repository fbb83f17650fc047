package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/simt"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv4"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/graph"
)

// bind fixes a node's memory and finds its kernel; it gives what puts the node on the stream.
type bind func(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error)

// kernel is one way to compute an op. Every kernel can be recorded in a graph: none waits and none needs the host.
type kernel struct {
	dev     *Device
	name    string
	scratch func(n *graph.Node, lim backend.Limits) int64
	bind    bind
}

// Name implements backend.Kernel.
func (k kernel) Name() string { return k.name }

// Scratch implements backend.Kernel.
func (k kernel) Scratch(n *graph.Node, lim backend.Limits) int64 {
	if k.scratch == nil {
		return 0
	}
	return k.scratch(n, lim)
}

// Bind implements backend.Kernel.
func (k kernel) Bind(n *graph.Node, a backend.Args) (backend.Launch, error) {
	var put func(*step) error
	err := k.dev.do(func() (err error) {
		k.dev.steps.need(a.Limits)
		if put, err = k.bind(k.dev, n, a); err != nil {
			return err
		}
		readAsTheyAre(a.Weights)
		return k.dev.loadSampler(n)
	})
	return &launch{text: n.Out[0].Name, put: put}, err
}

// Kernels implements backend.Device: the table of what the GPU can do.
func (d *Device) Kernels(n *graph.Node) []backend.Kernel {
	for _, list := range [][]*graph.Value{n.In, n.Out} {
		for _, v := range list {
			if v.Cache == nil && !kernels.Plain(v.Type) && !eightBit(v.Type) {
				return nil
			}
		}
	}
	switch n.Op.(type) {
	case graph.Embed:
		return d.one("embed", bindEmbed)
	case graph.Linear:
		return d.linears(n)
	case graph.LoRA:
		return d.loras(n)
	case graph.LoRAEmbed:
		return d.one("lora embed", bindLoRAEmbed)
	case graph.Quantize:
		return d.quantizes(n)
	case graph.AddOutliers:
		return d.addOutliers(n)
	case graph.RMSNorm:
		return d.one("rmsnorm", bindRMSNorm)
	case graph.AddNorm:
		return d.one("add, rmsnorm", bindAddNorm)
	case graph.LayerNorm:
		return d.one("layernorm", bindLayerNorm)
	case graph.Angles:
		return d.one("angles", bindAngles)
	case graph.RoPE:
		return d.one("rope", bindRoPE)
	case graph.KVWrite:
		return d.kvWrites(n)
	case graph.Attention:
		return d.attentions(n)
	case graph.PartialAttention:
		return d.partialAttentions(n)
	case graph.TopKeys:
		return d.topKeys(n)
	case graph.SparseAttention:
		return d.sparseAttentions(n)
	case graph.Act, graph.ActMul, graph.Add, graph.Softcap:
		return d.one("pointwise", bindPointwise)
	case graph.Scale:
		return d.one("scale", bindScale)
	case graph.XIELU:
		return d.one("xielu", bindXIELU)
	case graph.MoE:
		return d.moes(n)
	case graph.HeadLinear:
		return d.one("head linear", bindHeadLinear)
	case graph.Route:
		if n.In[0].Axis.Len() > moe.MaxExperts || n.Op.(graph.Route).TopK > moe.MaxTop {
			return nil
		}
		return d.one("route", bindRoute)
	case graph.GateRows:
		return d.one("gate rows", bindGateRows)
	case graph.ExpandStreams, graph.MixStreams, graph.AddToStreams, graph.MeanStreams, graph.Columns, graph.ScaleColumns, graph.GaussianTopK, graph.RowSums:
		return d.one("streams", bindStreams)
	case graph.CausalConv, graph.GatedDelta, graph.KimiDelta, graph.SSD, graph.SelectiveScan:
		return d.recurrents(n)
	case graph.SelectRows:
		return d.one("select rows", bindSelectRows)
	case graph.DeferredNorm:
		return d.one("rmsnorm", bindDeferredNorm)
	case *graph.Fused:
		return d.fused(n)
	default:
		return nil
	}
}

// Refusal implements backend.Refuser.
func (d *Device) Refusal(n *graph.Node) string {
	switch o := n.Op.(type) {
	case graph.TopKeys, graph.SparseAttention:
		if why := sparseRefusal(n); why != "" {
			return why
		}
	case graph.LoRA:
		if len(n.Weights) > lora.MaxTargets || n.Weights[0].Slots.Rank > lora.MaxRank {
			return fmt.Sprintf("it has adapters of %d matrices and rank %d at most, and %d of rank %d is the most on a GPU; lower --max-lora-rank", len(n.Weights), n.Weights[0].Slots.Rank, lora.MaxTargets, lora.MaxRank)
		}
	case graph.Attention:
		c := n.In[1].Cache
		if c.Type == graph.I4 && max(c.K.Size, c.V.Size) > kv4.MaxSize {
			return tooLarge(c, kv4.MaxSize)
		}
		if max(c.K.Size, c.V.Size) > simt.MaxSize {
			return fmt.Sprintf("its heads have %d numbers, and %d is the most on a GPU; the CPU has no such limit", max(c.K.Size, c.V.Size), simt.MaxSize)
		}
	case graph.KVWrite:
		c := n.In[0].Cache
		if !c.Latent && eightBit(c.Type) && max(c.K.Size, c.V.Size) > kv8.MaxSize {
			return tooLarge(c, kv8.MaxSize)
		}
		if c.Type == graph.I4 && max(c.K.Size, c.V.Size) > kv4.MaxSize {
			return tooLarge(c, kv4.MaxSize)
		}
	case graph.Route:
		if e := n.In[0].Axis.Len(); e > moe.MaxExperts || o.TopK > moe.MaxTop {
			return fmt.Sprintf("it chooses %d of %d experts, and %d of %d is the most on a GPU; the CPU has no such limit", o.TopK, e, moe.MaxTop, moe.MaxExperts)
		}
	case graph.CausalConv, graph.GatedDelta, graph.KimiDelta, graph.SSD, graph.SelectiveScan:
		if why := recurrentRefusal(n); why != "" {
			return why
		}
	case graph.PartialAttention:
		if c := n.In[1].Cache; max(c.K.Size, c.V.Size) > simt.MaxSize {
			return fmt.Sprintf("its heads have %d numbers, and %d is the most on a GPU; the CPU has no such limit", max(c.K.Size, c.V.Size), simt.MaxSize)
		}
	case graph.AdaptedMoE, graph.LoRAHeads:
		return "adapters of experts and of matrices divided by head are computed on CPUs, not on GPUs"
	case graph.MoE:
		if o.Clamp == 0 && !hasExpertFn(o.Fn) {
			return fmt.Sprintf("its experts have the function %s, and silu, gelu_tanh and relu are those of GPUs; the CPU has all", o.Fn)
		}
		if o.Experts > moe.MaxExperts || o.TopK > moe.MaxTop {
			return fmt.Sprintf("it chooses %d of %d experts, and %d of %d is the most on a GPU; the CPU has no such limit", o.TopK, o.Experts, moe.MaxTop, moe.MaxExperts)
		}
	}
	return "kernels compute with f32 and bf16, and bf16 results of rows in f8 and i8"
}

// tooLarge is why heads of a cache of few bits are refused.
func tooLarge(c *graph.Cache, most int) string {
	return fmt.Sprintf("its heads have %d numbers, and %d is the most in a cache of %s on a GPU; choose --kv-type f16", max(c.K.Size, c.V.Size), most, c.Type)
}

func (d *Device) one(name string, b bind) []backend.Kernel {
	return []backend.Kernel{kernel{dev: d, name: name, bind: b}}
}

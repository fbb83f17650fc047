package ref

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// runs computes ops, by their names. Fused ops have no run of their own here: they are taken apart again.
var runs = map[string]run{
	graph.Embed{}.Name():            embed,
	graph.Quantize{}.Name():         quantize,
	graph.Linear{}.Name():           linear,
	graph.AddOutliers{}.Name():      addOutliers,
	graph.LoRA{}.Name():             lora,
	graph.LoRAEmbed{}.Name():        loraEmbed,
	graph.LoRAHeads{}.Name():        loraHeads,
	graph.RMSNorm{}.Name():          rmsNorm,
	graph.LayerNorm{}.Name():        layerNorm,
	graph.RowSums{}.Name():          rowSums,
	graph.Angles{}.Name():           angles,
	graph.RoPE{}.Name():             rope,
	graph.KVWrite{}.Name():          kvWrite,
	graph.Attention{}.Name():        attention,
	graph.PartialAttention{}.Name(): attention,
	graph.Act{}.Name():              act,
	graph.ActMul{}.Name():           actMul,
	graph.Add{}.Name():              add,
	graph.Scale{}.Name():            scale,
	graph.XIELU{}.Name():            xielu,
	graph.Softcap{}.Name():          softcap,
	graph.MoE{}.Name():              moe,
	graph.AdaptedMoE{}.Name():       moe,
	graph.HeadLinear{}.Name():       headLinear,
	graph.TopKeys{}.Name():          topKeys,
	graph.SparseAttention{}.Name():  sparseAttention,
	graph.Route{}.Name():            route,
	graph.GateRows{}.Name():         gateRows,
	graph.ExpandStreams{}.Name():    expandStreams,
	graph.MixStreams{}.Name():       mixStreams,
	graph.AddToStreams{}.Name():     addToStreams,
	graph.MeanStreams{}.Name():      meanStreams,
	graph.Columns{}.Name():          columns,
	graph.ScaleColumns{}.Name():     scaleColumns,
	graph.GaussianTopK{}.Name():     gaussianTopK,
	graph.RoundRows{}.Name():        roundRows,
	graph.CausalConv{}.Name():       causalConv,
	graph.GatedDelta{}.Name():       gatedDelta,
	graph.KimiDelta{}.Name():        kimiDelta,
	graph.SSD{}.Name():              ssd,
	graph.SelectiveScan{}.Name():    selectiveScan,
	graph.SelectRows{}.Name():       selectLogitRows,
}

// Kernels implements backend.Device.
func (d *Device) Kernels(n *graph.Node) []backend.Kernel {
	if f := runs[n.Op.Name()]; f != nil {
		return []backend.Kernel{kernel{"ref " + n.Op.Name(), f}}
	}
	return nil
}

package price

import (
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Number is a format in which a device does arithmetic, each with a peak rate of its own.
type Number string

// The formats that a Profile may give rates for.
const (
	F32  Number = "f32"
	TF32 Number = "tf32"
	F16  Number = "f16"
	BF16 Number = "bf16"
	FP8  Number = "fp8"
	Int8 Number = "int8"
	FP4  Number = "fp4"
	Int4 Number = "int4"
)

// Numbers is every format, widest first.
var Numbers = []Number{F32, TF32, F16, BF16, FP8, Int8, FP4, Int4}

// numberOf is the format in which a node's arithmetic runs, as the passes left it: a product in its inputs' format, an
// attention in the device's, everything else in F32.
func numberOf(n *graph.Node, p *Profile) Number {
	switch o := n.Op.(type) {
	case graph.Linear:
		return numberOfProduct(n.In[0].Type, o.ActType)
	case graph.MoE:
		return numberOfProduct(n.In[0].Type, o.ManyType())
	case graph.AdaptedMoE:
		return numberOfProduct(n.In[0].Type, o.ManyType())
	case graph.Attention, graph.PartialAttention, graph.RingAttention:
		if p.Attention != "" {
			return p.Attention
		}
	}
	return F32
}

// skips is how many times the dense peak rate products with weights in a format are computed at: Hopper's kernels leave out what 2:4 sparse weights do not
// store.
func (p *Profile) skips(n Number, f quant.Format) float64 {
	if s := f.Descriptor().Sparsity; s.Kept > 0 && n == BF16 && p.Kernels == "sm_90" {
		return float64(s.Of) / float64(s.Kept)
	}
	return 1
}

// numberOfProduct is the format in which a product of inputs of a type runs, which it may round as it multiplies.
func numberOfProduct(in, round graph.Type) Number {
	if in == graph.F32 {
		in = round
	}
	switch in {
	case graph.Q8, graph.I8:
		return Int8
	case graph.F8:
		return FP8
	case graph.BF16:
		return BF16
	case graph.F16:
		return F16
	}
	return F32
}

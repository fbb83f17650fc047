package model

import (
	"github.com/ridge-llm/ridge/graph"
)

// maxExperts is more than any model has in a layer.
const maxExperts = 4096

// readExperts reads how many experts a layer has and how many a row passes; 0 is a model without any.
func (f *fields) readExperts(c *Config) {
	name := "num_local_experts"
	if f.hf["num_experts"] != nil { // as files from before transformers 5 have it
		name = "num_experts"
	}
	c.Experts.Experts = f.sizeOr(name, "expert_count", 0)
	if c.Experts.Experts == 0 {
		return
	}
	c.Experts.TopK = f.size("num_experts_per_tok", "expert_used_count")
	if c.Experts.Experts > maxExperts || c.Experts.TopK < 1 || c.Experts.TopK > c.Experts.Experts {
		f.fail("each token passes %d of its %d experts; at least one of at most %d is possible", c.Experts.TopK, c.Experts.Experts, maxExperts)
		c.Experts = graph.MoE{}
	}
	c.Experts.Fn, c.ExpertFFN = c.Act, c.FFN
}

// experts is the feed-forward block of many experts; the router's scores choose.
func (l layer) experts(x *graph.Value) *graph.Value {
	o, hidden, ffn := l.c.Experts, l.c.hidden(), l.c.expertFFN()
	scores := l.linear("ffn_gate_inp", x, l.c.perExpert(), o.Biased)
	stack := func(stem string, out, in graph.Axis) *graph.Weight {
		return l.b.Stack(l.name(stem), l.c.perExpert(), out, in)
	}
	weights := []*graph.Weight{stack("ffn_gate_exps.weight", ffn, hidden), stack("ffn_up_exps.weight", ffn, hidden), stack("ffn_down_exps.weight", hidden, ffn)}
	if o.Biased {
		one := graph.Axis{Name: "one", Count: 1, Size: 1}
		weights = append(weights, stack("ffn_gate_exps.bias", one, ffn), stack("ffn_up_exps.bias", one, ffn), stack("ffn_down_exps.bias", one, hidden))
	}
	return l.b.MoE(l.name("ffn_experts"), x, scores, o, weights)
}

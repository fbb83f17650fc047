package model

import (
	"fmt"

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
	c.Experts.Top = f.size("num_experts_per_tok", "expert_used_count")
	if c.Experts.Experts > maxExperts || c.Experts.Top < 1 || c.Experts.Top > c.Experts.Experts {
		f.fail("each token passes %d of its %d experts; at least one of at most %d is possible", c.Experts.Top, c.Experts.Experts, maxExperts)
		c.Experts = graph.MoE{}
	}
	c.Experts.Fn, c.ExpertFFN = c.Act, c.FFN
}

// experts is the feed-forward block of many experts; the router's scores choose.
func (l layer) experts(x *graph.Value) *graph.Value {
	o, hidden, ffn := l.c.Experts, l.c.hidden(), l.c.expertFFN()
	scores := l.linear("ffn_gate_inp", x, l.c.perExpert(), o.Biased)
	var weights []*graph.Weight
	for e := range o.Experts {
		weights = append(weights, l.expert("ffn_gate", e, ffn, hidden), l.expert("ffn_up", e, ffn, hidden), l.expert("ffn_down", e, hidden, ffn))
		if o.Biased {
			weights = append(weights, l.expertBias("ffn_gate", e, ffn), l.expertBias("ffn_up", e, ffn), l.expertBias("ffn_down", e, hidden))
		}
	}
	return l.b.MoE(l.name("ffn_experts"), x, scores, o, weights)
}

// expert is a matrix of one expert. A file holds those of all one below the other, as GGUF does, or each by itself.
func (l layer) expert(stem string, e int, out, in graph.Axis) *graph.Weight {
	if all := l.name(stem + "_exps.weight"); l.b.Has(all) {
		return l.b.Part(all, e*out.Len(), out, in)
	}
	return l.matrix(fmt.Sprintf("%s.%d", stem, e), out, in)
}

// expertBias is a bias of one expert, a row among those of all.
func (l layer) expertBias(stem string, e int, out graph.Axis) *graph.Weight {
	return l.b.Part(l.name(stem+"_exps.bias"), e, graph.Axis{Name: "one", Count: 1, Size: 1}, out)
}

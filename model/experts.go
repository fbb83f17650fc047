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
	for _, other := range []string{"num_experts", "n_routed_experts", "moe_num_experts"} { // num_experts: as files from before transformers 5 have it
		if f.value(other) != nil {
			name = other
		}
	}
	c.Experts.Experts = f.sizeOr(name, "expert_count", 0)
	if c.Experts.Experts == 0 {
		return
	}
	topK := "num_experts_per_tok"
	if f.value("moe_k") != nil {
		topK = "moe_k"
	}
	c.Experts.TopK = f.size(topK, "expert_used_count")
	if c.Experts.Experts > maxExperts || c.Experts.TopK < 1 || c.Experts.TopK > c.Experts.Experts {
		f.fail("each token passes %d of its %d experts; at least one of at most %d is possible", c.Experts.TopK, c.Experts.Experts, maxExperts)
		c.Experts = graph.MoE{}
	}
	c.Experts.Fn, c.ExpertFFN = c.Act, c.FFN
}

// GGUF's expert_gating_func.
const (
	ggufSoftmax = 1
	ggufSigmoid = 2
)

// readRouting reads, after readExperts, what DeepSeek's models and those after them add: sigmoid scores, a bias for choosing, groups, a
// factor of shares, experts that every row passes, first layers without experts. Without a field in config.json for it, scores are
// sigmoids and shares renormalised or not, as otherwise says.
func (f *fields) readRouting(c *Config, otherwise graph.Route) {
	if c.Experts.Experts == 0 {
		return
	}
	o := graph.Route{TopK: c.Experts.TopK}
	c.ExpertFFN = f.sizeOr("moe_intermediate_size", "expert_feed_forward_length", c.FFN)
	c.DenseLayers = f.sizeOr("first_k_dense_replace", "leading_dense_block_count", 0)
	gating := map[bool]int{false: ggufSoftmax, true: ggufSigmoid}[otherwise.Sigmoid]
	switch score := f.word("scoring_func"); score {
	case "":
	case "softmax":
		gating = ggufSoftmax
	case "sigmoid":
		gating = ggufSigmoid
	default:
		f.fail("field scoring_func is %q; softmax and sigmoid are supported", score)
	}
	if gating = f.sizeOr("", "expert_gating_func", gating); gating != ggufSoftmax && gating != ggufSigmoid {
		f.fail("field expert_gating_func is %d; 1 (softmax) and 2 (sigmoid) are supported", gating)
	}
	o.Sigmoid = gating == ggufSigmoid
	o.NoRenorm = !f.flagOr("norm_topk_prob", "expert_weights_norm", !otherwise.NoRenorm)
	if o.Scale = f.floatOr("routed_scaling_factor", "expert_weights_scale", 1); o.Scale == 1 || o.Scale == 0 {
		o.Scale = 0
	}
	o.Groups, o.TopGroups = f.sizeOr("n_group", "expert_group_count", 0), f.sizeOr("topk_group", "expert_group_used_count", 0)
	method := f.word("topk_method")
	switch method {
	case "", "greedy", "group_limited_greedy", "noaux_tc":
	default:
		f.fail("field topk_method is %q; greedy, group_limited_greedy and noaux_tc are supported", method)
	}
	if o.BestTwo = o.Sigmoid; o.Groups <= 1 || method == "greedy" {
		o.Groups, o.TopGroups, o.BestTwo = 0, 0, false
		f.note("expert_group_count", uint32(0))
		f.note("expert_group_used_count", uint32(0))
	}
	if err := o.Check(c.Experts.Experts); err != nil {
		f.fail("%v (fields n_routed_experts, num_experts_per_tok, n_group, topk_group)", err)
	}
	c.SharedFFN = f.sizeOr("n_shared_experts", "expert_shared_count", 0) * c.ExpertFFN
	c.RouteBias = o.Sigmoid
	if !f.isHF() {
		c.RouteBias = f.has(fmt.Sprintf("blk.%d.exp_probs_b.bias", c.DenseLayers))
	}
	c.Experts.Shares, c.Route = true, o
}

// experts is the feed-forward block of many experts; the router's scores choose.
func (l layer) experts(x *graph.Value) *graph.Value {
	o, hidden, ffn := l.c.Experts, l.c.hidden(), l.c.expertFFN()
	scores := l.linear("ffn_gate_inp", x, l.c.perExpert(), o.Biased)
	if l.c.Route.TopK > 0 {
		scores = l.b.Route(l.name("ffn_shares"), scores, l.c.Route, l.bias("exp_probs_b", l.c.perExpert(), l.c.RouteBias))
	}
	stack := func(stem string, out, in graph.Axis) *graph.Weight {
		return l.b.Stack(l.name(stem), l.c.perExpert(), out, in)
	}
	weights := []*graph.Weight{stack("ffn_gate_exps.weight", ffn, hidden), stack("ffn_up_exps.weight", ffn, hidden), stack("ffn_down_exps.weight", hidden, ffn)}
	if o.Biased {
		one := graph.Axis{Name: "one", Count: 1, Size: 1}
		weights = append(weights, stack("ffn_gate_exps.bias", one, ffn), stack("ffn_up_exps.bias", one, ffn), stack("ffn_down_exps.bias", one, hidden))
	}
	passing := x
	if l.c.ScaledInput {
		passing = l.b.GateRows(l.name("ffn_scaled"), x, scores)
	}
	y := l.b.MoE(l.name("ffn_experts"), passing, scores, o, weights)
	if l.c.SharedFFN == 0 {
		return y
	}
	shared := l.gatedOf(x, "_shexp", l.c.sharedFFN(), false)
	if l.c.SharedGate {
		gate := l.linear("ffn_gate_inp_shexp", x, graph.Axis{Name: "gate", Count: 1, Size: 1}, false)
		shared = l.b.GateRows(l.name("ffn_shexp"), shared, gate)
	}
	return l.add("ffn_experts_sum", y, shared)
}

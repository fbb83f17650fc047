package model

import "github.com/ridge-llm/ridge/graph"

// qwen2 is Llama with biases on queries, keys and values (arXiv:2407.10671).
var qwen2 = Arch{
	Name: "qwen2",
	HF:   []string{"Qwen2ForCausalLM", "Qwen2Model"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		qwenWindows(f, c)
		return c
	},
	Build: preNorm,
}

// qwen3 normalises queries and keys head by head instead (arXiv:2505.09388).
var qwen3 = Arch{
	Name: "qwen3",
	HF:   []string{"Qwen3ForCausalLM", "Qwen3Model"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.QKNorm = true
		c.Rotation = f.rotation(c, graph.HalfPairs)
		qwenWindows(f, c)
		return c
	},
	Build: preNorm,
}

// qwen3moe is Qwen3 with experts in place of the feed-forward block.
var qwen3moe = Arch{
	Name: "qwen3moe",
	HF:   []string{"Qwen3MoeForCausalLM"},
	Read: func(f *fields) *Config {
		c := qwen3.Read(f)
		f.readExperts(c)
		c.ExpertFFN = f.size("moe_intermediate_size", "expert_feed_forward_length")
		if f.isHF() { // what GGUF has no keys for
			c.Experts.NoRenorm = !f.flag("norm_topk_prob", false)
			f.sparseLayers(c)
		}
		return c
	},
	Build: preNorm,
	Names: routedNames,
}

// sparseLayers reads which layers have no experts.
func (f *fields) sparseLayers(c *Config) {
	every := f.sizeOr("decoder_sparse_step", "", 1)
	v := f.value("mlp_only_layers")
	list, ok := v.([]any)
	if v != nil && !ok {
		f.fail("field mlp_only_layers is %v; there must be a list of layers", v)
	}
	if every == 1 && len(list) == 0 || c.Layers > maxLayers {
		return
	}
	c.Dense = make([]bool, c.Layers)
	for i := range c.Dense {
		c.Dense[i] = every < 1 || (i+1)%every != 0
	}
	for _, v := range list {
		n, ok := number(v)
		if i := int(n); !ok || float64(i) != n || i < 0 || i >= c.Layers {
			f.fail("field mlp_only_layers lists layer %v of %d", v, c.Layers)
			return
		} else {
			c.Dense[i] = true
		}
	}
}

// gatedShared reads experts beside one that every row passes behind a gate. Whether shares add up to 1 is by default as otherwise says.
func (f *fields) gatedShared(c *Config, otherwise bool) {
	f.readExperts(c)
	c.ExpertFFN = f.size("moe_intermediate_size", "expert_feed_forward_length")
	c.SharedFFN = f.size("shared_expert_intermediate_size", "expert_shared_feed_forward_length")
	c.SharedGate, c.Experts.NoRenorm = c.SharedFFN > 0, !f.flagOr("norm_topk_prob", "expert_weights_norm", otherwise)
	if f.isHF() {
		f.sparseLayers(c)
	}
}

// qwen2moe is Qwen2 with experts, whose shares do not add up to 1, beside one that every row passes behind a gate.
var qwen2moe = Arch{
	Name: "qwen2moe",
	HF:   []string{"Qwen2MoeForCausalLM"},
	Read: func(f *fields) *Config {
		c := qwen2.Read(f)
		c.QKVBias = f.biased("qkv_bias", "attn_q", true)
		f.gatedShared(c, false)
		return c
	},
	Build: preNorm,
	Names: merged(routedNames, map[string]string{
		"blk.N.ffn_gate_inp_shexp": "model.layers.N.mlp.shared_expert_gate",
		"blk.N.ffn_gate_shexp":     "model.layers.N.mlp.shared_expert.gate_proj",
		"blk.N.ffn_up_shexp":       "model.layers.N.mlp.shared_expert.up_proj",
		"blk.N.ffn_down_shexp":     "model.layers.N.mlp.shared_expert.down_proj",
	}),
}

// qwenWindows gives the layers from max_window_layers on a window, when the model says that it uses one.
func qwenWindows(f *fields, c *Config) {
	if !f.isHF() {
		return
	}
	from, window := f.sizeOr("max_window_layers", "", 28), f.sizeOr("sliding_window", "", 4096)
	if !f.flag("use_sliding_window", false) {
		window = 0 // the layers that are listed are checked all the same
	}
	f.windows(c, window, func(i int) bool { return i >= from })
}

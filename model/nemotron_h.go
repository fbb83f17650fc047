package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// nemotronH is Nemotron-H and Nemotron 3 (arXiv:2504.03624): each layer is one block, of Mamba 2, attention without positions, a feed-forward
// block of squared ReLU, or such experts routed as DeepSeek-V3's are.
var nemotronH = Arch{
	Name: "nemotron_h",
	Moe:  "nemotron_h_moe",
	HF:   []string{"NemotronHForCausalLM"},
	Read: func(f *fields) *Config {
		if f.isHF() && f.value("num_hidden_layers") == nil {
			f.hf["num_hidden_layers"] = float64(len(f.strings("layers_block_type")))
		}
		c := llamaLike(f)
		c.NormEps = f.floatOr("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", 1e-5)
		f.note("attention.layer_norm_epsilon", float32(c.NormEps)) // llama.cpp wants both
		c.Plain, c.Act = true, graph.Relu2
		if act := f.word("mlp_hidden_act"); act != "" && act != "relu2" {
			f.fail("field mlp_hidden_act is %q; relu2 is supported", act)
		}
		f.readSSM(c, "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
		c.SSMNorm, c.NormGroups = true, c.SSM.Groups
		c.SSM.MinStep = max(c.SSM.MinStep, f.floatOr("time_step_min", "", 0.001)) // as transformers does
		f.readBlocks(c)
		f.readExperts(c)
		f.readRouting(c, graph.Route{Sigmoid: true})
		if first := slices.Index(c.Blocks, "moe"); first >= 0 && !f.isHF() {
			c.RouteBias = f.has(fmt.Sprintf("blk.%d.exp_probs_b.bias", first))
		}
		c.SharedFFN = f.sizeOr("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", c.SharedFFN)
		c.Experts.Fn = graph.Relu // relu(u)·u with one matrix for both
		for _, name := range []string{"attention_bias", "mlp_bias", "mamba_proj_bias"} {
			f.only(name, false)
		}
		f.recurrentBiases(c, "use_conv_bias", "use_bias")
		if f.value("moe_latent_size") != nil {
			f.fail("field moe_latent_size is %v; experts over the stream itself are supported", f.value("moe_latent_size"))
		}
		f.ignored("chunk_size", "expand", "time_step_floor", "time_step_max", "use_mamba_kernels", "mamba_hidden_act", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap", "mtp_layers_block_type", "num_logits_to_keep",
			"rescale_prenorm_residual", "residual_in_fp32", "time_step_rank", "rope_theta", "partial_rotary_factor", "rope_parameters", "hidden_act", "mtp_hybrid_override_pattern", "max_position_embeddings")
		return c
	},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		x := embedding(b, c)
		for i, kind := range c.Blocks {
			l := newLayer(b, c, i)
			h := l.norm("attn_norm", x)
			switch kind {
			case "mamba":
				h = l.mamba2(h)
			case "attention":
				h = l.selfAttention(h)
			case "moe":
				h = l.squaredExperts(h)
			default:
				h = l.plain(h)
			}
			x = l.add("sum", x, h)
		}
		return head(b, c, x)
	},
	Names: merged(ssmNames("backbone.layers.N.mixer"), backboneNames, map[string]string{
		"blk.N.attn_q":           "backbone.layers.N.mixer.q_proj",
		"blk.N.attn_k":           "backbone.layers.N.mixer.k_proj",
		"blk.N.attn_v":           "backbone.layers.N.mixer.v_proj",
		"blk.N.attn_output":      "backbone.layers.N.mixer.o_proj",
		"blk.N.ffn_up":           "backbone.layers.N.mixer.up_proj",
		"blk.N.ffn_down":         "backbone.layers.N.mixer.down_proj",
		"blk.N.ffn_gate_inp":     "backbone.layers.N.mixer.gate",
		"blk.N.exp_probs_b.bias": "backbone.layers.N.mixer.gate.e_score_correction_bias",
		"blk.N.ffn_up.E":         "backbone.layers.N.mixer.experts.E.up_proj",
		"blk.N.ffn_down.E":       "backbone.layers.N.mixer.experts.E.down_proj",
		"blk.N.ffn_up_shexp":     "backbone.layers.N.mixer.shared_experts.up_proj",
		"blk.N.ffn_down_shexp":   "backbone.layers.N.mixer.shared_experts.down_proj",
	}),
	Recipe: ssmRecipe,
}

// readBlocks reads what each layer is: by layers_block_type, or by a pattern of letters; in GGUF by the layers that have key heads and those that
// have a feed-forward width.
func (f *fields) readBlocks(c *Config) {
	if c.Layers > maxLayers || f.err != nil {
		return
	}
	if !f.isHF() {
		f.readGGUFBlocks(c)
		return
	}
	kinds := map[string]string{"linear_attention": "mamba", "full_attention": "attention", "mamba": "mamba", "attention": "attention", "moe": "moe", "mlp": "mlp", "M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
	list := f.strings("layers_block_type")
	if pattern := f.word("hybrid_override_pattern"); len(list) == 0 {
		list = strings.Split(pattern, "")
	}
	if len(list) != c.Layers || c.Layers > maxLayers {
		f.fail("fields layers_block_type and hybrid_override_pattern list %d layers and num_hidden_layers says %d", len(list), c.Layers)
		return
	}
	c.Recurrent = make([]bool, c.Layers)
	for i, name := range list {
		kind, ok := kinds[name]
		if !ok {
			f.fail("a layer is %q; mamba, attention, moe and mlp are supported", name)
		}
		c.Blocks = append(c.Blocks, kind)
		c.Recurrent[i] = kind == "mamba"
	}
	if expert := f.sizeOr("moe_intermediate_size", "", 0); !slices.Contains(c.Blocks, "mlp") && expert > 0 {
		c.FFN = expert // no layer has the other width
	}
	heads, widths := make([]int32, c.Layers), make([]int32, c.Layers)
	for i, kind := range c.Blocks {
		switch kind {
		case "attention":
			heads[i] = int32(c.KVHeads)
		case "moe", "mlp":
			widths[i] = int32(c.FFN)
		}
	}
	f.note("attention.head_count_kv", heads)
	f.note("feed_forward_length", widths)
}

// readGGUFBlocks reads what each layer is from the lists of key heads and of widths, of which a layer has one or none.
func (f *fields) readGGUFBlocks(c *Config) {
	heads, _ := f.meta("attention.head_count_kv").([]int32)
	widths, _ := f.meta("feed_forward_length").([]int32)
	if len(heads) != c.Layers || len(widths) != c.Layers {
		f.fail("fields %s.attention.head_count_kv and feed_forward_length list %d and %d layers and block_count says %d", f.arch, len(heads), len(widths), c.Layers)
		return
	}
	c.Recurrent = make([]bool, c.Layers)
	for i := range heads {
		kind := "mamba"
		switch {
		case widths[i] > 0 && f.has(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", i)):
			kind = "moe"
		case widths[i] > 0:
			kind = "mlp"
		case heads[i] > 0:
			kind = "attention"
		}
		c.Blocks = append(c.Blocks, kind)
		c.Recurrent[i] = kind == "mamba"
	}
}

// squaredExperts is experts of squared ReLU: relu(u)·u, with one matrix for gate and up.
func (l layer) squaredExperts(x *graph.Value) *graph.Value {
	hidden, ffn := l.c.hidden(), l.c.expertFFN()
	scores := l.linear("ffn_gate_inp", x, l.c.perExpert(), false)
	scores = l.b.Route(l.name("ffn_shares"), scores, l.c.Route, l.bias("exp_probs_b", l.c.perExpert(), l.c.RouteBias))
	up := l.b.Stack(l.name("ffn_up_exps.weight"), l.c.perExpert(), ffn, hidden)
	y := l.b.MoE(l.name("ffn_experts"), x, scores, l.c.Experts, []*graph.Weight{up, up, l.b.Stack(l.name("ffn_down_exps.weight"), l.c.perExpert(), hidden, ffn)})
	if l.c.SharedFFN == 0 {
		return y
	}
	shared := l.b.Act(l.name("ffn_act_shexp"), l.linear("ffn_up_shexp", x, l.c.sharedFFN(), false), graph.Relu2)
	return l.add("ffn_experts_sum", y, l.linear("ffn_down_shexp", shared, hidden, false))
}

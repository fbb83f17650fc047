package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// What differs from Llama by a line or two.

// arcee is Arcee's AFM: feed-forward blocks have no gate and square what is above 0.
var arcee = Arch{
	Name: "arcee",
	HF:   []string{"ArceeForCausalLM"},
	Read: func(f *fields) *Config {
		c := llama.Read(f)
		c.MLPBias = f.biased("mlp_bias", "ffn_up", false)
		c.Plain, c.Act = true, f.activation("hidden_act", graph.Relu2)
		return c
	},
	Build: preNorm,
}

// ernie45 is ERNIE 4.5: pairs of a head lie next to one another.
var ernie45 = Arch{
	Name: "ernie4_5",
	HF:   []string{"Ernie4_5ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Tied = f.tied(true)
		c.QKVBias = f.biased("use_bias", "attn_q", false)
		c.OutBias = f.biased("use_bias", "attn_output", false)
		c.MLPBias = f.biased("use_bias", "ffn_gate", false)
		c.Rotation = f.interleaved(c)
		return c
	},
	Build: preNorm,
}

// seedOSS is ByteDance's Seed-OSS: biases on queries, keys and values.
var seedOSS = Arch{
	Name: "seed_oss",
	HF:   []string{"SeedOssForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", true)
		c.OutBias = f.biased("attention_out_bias", "attn_output", false)
		c.MLPBias = f.biased("mlp_bias", "ffn_gate", false)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		return c
	},
	Names: map[string]string{"blk.N.post_attention_norm": "model.layers.N.post_attention_layernorm"},
	Build: lateNamed,
}

// smollm3 is SmolLM3: every fourth layer does not rotate.
var smollm3 = Arch{
	Name: "smollm3",
	HF:   []string{"SmolLM3ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llama.Read(f)
		c.Tied = f.tied(true)
		f.noRope(c)
		if f.isHF() {
			window := f.sizeOr("sliding_window", "", 0)
			if !f.flag("use_sliding_window", false) {
				window = 0 // the layers that are listed are checked all the same
			}
			f.windows(c, window, everyLayer)
		}
		return c
	},
	Build: preNorm,
}

// noRope reads which layers do not rotate: those with a 0 in no_rope_layers, or, without it, every so many. GGUF files leave readers to
// know that it is every fourth.
func (f *fields) noRope(c *Config) {
	c.NoRope = make([]bool, len(c.Windows))
	every := f.sizeOr("no_rope_layer_interval", "", 4)
	for i := range c.NoRope {
		c.NoRope[i] = every > 0 && (i+1)%every == 0
	}
	v := f.value("no_rope_layers")
	list, ok := v.([]any)
	if v != nil && !ok {
		f.fail("field no_rope_layers is %.100v and a list of 0 and 1 is wanted", v)
	}
	if len(list) == 0 {
		return
	}
	if len(list) != c.Layers {
		f.fail("field no_rope_layers lists %d layers and num_hidden_layers says %d", len(list), c.Layers)
		return
	}
	for i, v := range list {
		c.NoRope[i] = v == 0.0
		if v != 0.0 && v != 1.0 {
			f.fail("field no_rope_layers has %.100v; 0 (the layer does not rotate) and 1 are possible", v)
		}
	}
}

// hunyuan is Tencent's Hunyuan (dense): queries and keys are normalised head by head after the rotation.
var hunyuan = Arch{
	Name: "hunyuan-dense",
	HF:   []string{"HunYuanDenseV1ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.QKVBias = f.biased("attention_bias", "attn_q", false)
		c.OutBias = f.biased("attention_bias", "attn_output", false)
		c.QKNorm, c.LateQKNorm = true, true
		// Its "dynamic" scaling with an alpha is a larger theta, at any length.
		for _, name := range []string{"rope_parameters", "rope_scaling"} {
			p := f.object(name)
			if alpha, ok := number(p["alpha"]); ok && alpha > 0 && c.HeadDim > 2 {
				theta, _ := number(p["rope_theta"])
				if theta == 0 {
					theta = f.floatOr("rope_theta", "", 10000)
				}
				f.hf[name] = map[string]any{"rope_type": "default", "rope_theta": theta * math.Pow(alpha, float64(c.HeadDim)/float64(c.HeadDim-2))}
			}
		}
		c.Rotation = f.rotation(c, graph.HalfPairs)
		return c
	},
	Names: map[string]string{
		"blk.N.attn_q_norm": "model.layers.N.self_attn.query_layernorm",
		"blk.N.attn_k_norm": "model.layers.N.self_attn.key_layernorm",
	},
	Build: preNorm,
}

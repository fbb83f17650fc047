package model

import "github.com/ridge-llm/ridge/graph"

// ministral3 is Ministral 3: Mistral with YaRN, whose queries grow with their positions as Llama 4's do. Mistral Small 3 in its multimodal
// class is the same without the growth.
var ministral3 = Arch{
	Name: "mistral3",
	HF:   []string{"Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"},
	TextDefaults: map[string]any{
		"vocab_size": 131072.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0, "head_dim": 128.0,
		"max_position_embeddings": 131072.0, "rms_norm_eps": 1e-5, "hidden_size": 5120.0, "intermediate_size": 32768.0, "num_hidden_layers": 40.0,
	},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Rotation = f.rotation(c, graph.AdjacentPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		params := f.object("rope_parameters")
		if params == nil {
			params = f.object("rope_scaling")
		}
		p := ropeParams{f: f, m: params}
		beta, orig := p.float("llama_4_scaling_beta", 0), p.float("original_max_position_embeddings", float64(c.Context))
		all := p.float("mscale_all_dim", 0)
		if !f.isHF() {
			beta, orig = f.floatOr("", "attention.temperature_scale", 0), float64(f.sizeOr("", "rope.scaling.original_context_length", c.Context))
			all = f.floatOr("", "rope.scaling.yarn_log_multiplier", 0)
		}
		if s := &c.Rotation.Scaling; s.Kind == graph.YarnScaling && all != 0 { // as llama.cpp has it, where mscale is 1
			f.note("rope.scaling.yarn_log_multiplier", float32(all))
			usual := yarnMagnitude(s.Factor, 1)
			if !f.isHF() {
				s.Magnitude /= yarnMagnitude(s.Factor, all)
			} else {
				f.note("rope.scaling.attn_factor", float32(s.Magnitude/usual*yarnMagnitude(s.Factor, all)))
			}
		}
		if beta != 0 {
			f.note("attention.temperature_scale", float32(beta))
			if c.QueryGrowth = (graph.Growth{Beta: float64(float32(beta)), Every: int(orig)}); orig < 1 {
				f.fail("its queries grow every %g tokens (original_max_position_embeddings); 1 and more are supported", orig)
			}
		}
		return c
	},
	Build: preNorm,
}

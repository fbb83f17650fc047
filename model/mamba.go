package model

import "github.com/ridge-llm/ridge/graph"

// mamba is Mamba (Gu & Dao, arXiv:2312.00752): layers of a selective scan and nothing else.
var mamba = Arch{
	Name: "mamba",
	HF:   []string{"MambaForCausalLM"},
	Read: func(f *fields) *Config {
		c := readMamba(f)
		f.readScan(c, f.sizeOr("intermediate_size", "", 2*c.Hidden), "state_size", "time_step_rank", "conv_kernel")
		f.recurrentBiases(c, "use_conv_bias", "use_bias")
		if f.flagOr("", "ssm.dt_b_c_rms", false) { // Falcon Mamba's GGUF files are of this architecture
			c.Scan.UnitNorms = unitNormsEps
		}
		return c
	},
	Build:  func(b *graph.Builder, c *Config) *graph.Value { return recurrentDecoder(b, c, layer.mamba1) },
	Names:  merged(scanNames("backbone.layers.N.mixer"), backboneNames),
	Recipe: ssmRecipe,
}

// unitNormsEps is the epsilon of Falcon Mamba's norms within layers, for which GGUF has no key.
const unitNormsEps = 1e-6

// falconMamba is Falcon Mamba (arXiv:2410.05355): Mamba 1 whose steps, B and C are normalised without weights.
var falconMamba = Arch{
	Name: "mamba",
	HF:   []string{"FalconMambaForCausalLM"},
	Read: func(f *fields) *Config {
		c := mamba.Read(f)
		c.Scan.UnitNorms = f.floatOr("mixer_rms_eps", "", unitNormsEps)
		f.note("ssm.dt_b_c_rms", true)
		return c
	},
	Build:  mamba.Build,
	Names:  mamba.Names,
	Recipe: ssmRecipe,
}

// mamba2 is Mamba 2 (Dao & Gu, arXiv:2405.21060).
var mamba2 = Arch{
	Name: "mamba2",
	HF:   []string{"Mamba2ForCausalLM"},
	Read: func(f *fields) *Config {
		c := readMamba(f)
		f.readSSM(c, "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
		f.recurrentBiases(c, "use_conv_bias", "use_bias")
		c.SSMNorm = true
		return c
	},
	Build:  func(b *graph.Builder, c *Config) *graph.Value { return recurrentDecoder(b, c, layer.mamba2) },
	Names:  merged(ssmNames("backbone.layers.N.mixer"), backboneNames),
	Recipe: ssmRecipe,
}

var backboneNames = map[string]string{
	"token_embd":      "backbone.embeddings",
	"output_norm":     "backbone.norm_f",
	"blk.N.attn_norm": "backbone.layers.N.norm",
}

// readMamba reads what both have.
func readMamba(f *fields) *Config {
	c := &Config{
		Hidden:  f.size("hidden_size", "embedding_length"),
		Layers:  f.size("num_hidden_layers", "block_count"),
		Context: f.sizeOr("max_position_embeddings", "context_length", recurrentContext),
		NormEps: f.floatOr("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", 1e-5),
		Vocab:   f.vocabulary(),
		Tied:    f.tied(true),
	}
	f.note("feed_forward_length", uint32(0))
	f.note("attention.head_count", uint32(0))
	f.ignored("hidden_act", "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_scale", "use_associative_scan", "use_mambapy", "chunk_size",
		"residual_in_fp32", "rescale_prenorm_residual", "intermediate_size", "expand", "time_step_rank")
	if c.Layers <= maxLayers {
		c.Windows, c.Recurrent = make([]int, c.Layers), make([]bool, c.Layers)
		for i := range c.Recurrent {
			c.Recurrent[i] = true
		}
	}
	return c
}

// recurrentContext is that of models without positions, whose configurations name none: any length is possible, and room for page tables is
// made for this.
const recurrentContext = 1 << 17

// recurrentDecoder is a decoder of blocks of one kind, each of which reads the normalised stream and adds to it.
func recurrentDecoder(b *graph.Builder, c *Config, block func(layer, *graph.Value) *graph.Value) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.add("ssm_sum", x, block(l, l.norm("attn_norm", x)))
	}
	return head(b, c, x)
}

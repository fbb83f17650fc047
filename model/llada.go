package model

import "github.com/ridge-llm/ridge/graph"

// llada is LLaDA (arXiv:2502.09992): Llama with sight of what comes after, in OLMo's names of fields and tensors.
var llada = Arch{
	Name: "llada",
	HF:   []string{"LLaDAModelLM"},
	Read: readLLaDA,
	Names: map[string]string{
		"token_embd":        "model.transformer.wte",
		"output_norm":       "model.transformer.ln_f",
		"output":            "model.transformer.ff_out",
		"blk.N.attn_norm":   "model.transformer.blocks.N.attn_norm",
		"blk.N.attn_q":      "model.transformer.blocks.N.q_proj",
		"blk.N.attn_k":      "model.transformer.blocks.N.k_proj",
		"blk.N.attn_v":      "model.transformer.blocks.N.v_proj",
		"blk.N.attn_output": "model.transformer.blocks.N.attn_out",
		"blk.N.ffn_norm":    "model.transformer.blocks.N.ff_norm",
		"blk.N.ffn_gate":    "model.transformer.blocks.N.ff_proj",
		"blk.N.ffn_up":      "model.transformer.blocks.N.up_proj",
		"blk.N.ffn_down":    "model.transformer.blocks.N.ff_out",
	},
	Build: preNorm,
}

func readLLaDA(f *fields) *Config {
	if f.isHF() {
		for old, now := range map[string]string{
			"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads",
			"mlp_hidden_size": "intermediate_size", "max_sequence_length": "max_position_embeddings", "weight_tying": "tie_word_embeddings", "activation_type": "hidden_act",
		} {
			f.renamed(old, now)
		}
		if rows := f.value("embedding_size"); rows != nil { // of the embedding and of the output matrix, where they are padded
			f.hf["vocab_size"] = rows
		}
		f.oneOf("block_type", "llama")
		f.oneOf("layer_norm_type", "rms")
		for _, name := range []string{"alibi", "attention_layer_norm", "include_bias", "bias_for_layer_norm", "input_emb_norm", "scale_logits", "multi_query_attention"} {
			f.only(name, false)
		}
		f.only("rope", true)
		// Norms of queries and keys, which there are none of, widths that other fields say exactly, and how upstream computes.
		f.ignored("attention_layer_norm_with_affine", "layer_norm_with_affine", "mlp_ratio", "block_group_size", "rope_full_precision", "alibi_bias_max", "flash_attention", "init_fn", "init_device", "init_cutoff_factor", "precision")
	}
	c := llamaLike(f)
	c.QKVBias = f.biased("include_qkv_bias", "attn_q", false)
	c.Rotation = f.rotation(c, graph.AdjacentPairs)
	f.diffusion(c, false)
	return c
}

// oneOf refuses a word of config.json that is there and not the one that is supported.
func (f *fields) oneOf(hf, wanted string) {
	if w := f.word(hf); w != "" && w != wanted {
		f.fail("field %s is %q; %s is supported", hf, w, wanted)
	}
}

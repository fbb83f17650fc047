package model

import (
	"fmt"
	"slices"
	"strings"
)

// harmless are fields of config.json and keys of GGUF metadata that say nothing about what a model computes: about training, about
// transformers and its outputs, about tokens, which the tokenizer's files and generation_config.json have.
var harmless = map[string]bool{
	"architectures": true, "auto_map": true, "model_type": true, "transformers_version": true, "_name_or_path": true, "_attn_implementation": true, "_commit_hash": true,
	"torch_dtype": true, "dtype": true, "tokenizer_class": true, "processor_class": true, "pretraining_tp": true, "use_cache": true, "return_dict": true, "problem_type": true,
	"id2label": true, "label2id": true, "num_labels": true, "finetuning_task": true, "task_specific_params": true, "is_encoder_decoder": true, "gradient_checkpointing": true,
	"bos_token_id": true, "eos_token_id": true, "pad_token_id": true, "eod_token_id": true, "sep_token_id": true, "mask_token_id": true, "image_token_id": true, "im_start_id": true, "im_end_id": true,
	"type_vocab_size":     true, // the table's own rows count
	"attn_implementation": true, "chunk_size_feed_forward": true, "cross_attention_hidden_size": true, "torchscript": true, "use_flash_attn": true, "output_router_logits": true,
	"generation_config": true, "text_config": true, "quantization_config": true, "compression_config": true,
	"num_nextn_predict_layers": true, "mtp_num_hidden_layers": true, "mtp_use_dedicated_embeddings": true, "nextn_predict_layers": true, // layers that predict further tokens are not the model's own
	"vocab_size":         true, // of GGUF: the embedding's rows count
	"tensor_data_layout": true, "pooling_type": true, "dense_2_feat_in": true, "dense_2_feat_out": true, "dense_3_feat_in": true, "dense_3_feat_out": true,
}

// harmlessParts are in the names of fields about training.
var harmlessParts = []string{"dropout", "pdrop", "initializer", "init_std", "aux_loss", "z_loss", "summary_"}

// isHarmless reports whether a field changes nothing that a model computes, by its name or because it turns nothing on.
func isHarmless(name string, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		if !v {
			return true
		}
	case string:
		if v == "" || v == "default" || v == "none" {
			return true
		}
	case []any:
		if len(v) == 0 {
			return true
		}
	case map[string]any:
		if len(v) == 0 {
			return true
		}
	}
	if n, ok := number(value); ok && n == 0 {
		return true
	}
	return harmless[name] || slices.ContainsFunc(harmlessParts, func(part string) bool { return strings.Contains(name, part) })
}

// ignored notes fields of config.json that an architecture knows and has no use for.
func (f *fields) ignored(names ...string) {
	for _, name := range names {
		f.read[name] = true
	}
}

// unread names the fields that no one has looked at and that may change what the model computes.
func (f *fields) unread() (names []string) {
	if f.isHF() {
		for name, v := range f.hf {
			if !f.read[name] && !isHarmless(name, v) {
				names = append(names, fmt.Sprintf("%s (%s)", name, brief(v)))
			}
		}
		for _, object := range []string{"rope_parameters", "rope_scaling"} {
			params, _ := f.hf[object].(map[string]any)
			if f.read[object] {
				names = append(names, f.unreadRope(object, params)...)
			}
		}
	} else {
		for name, v := range f.gguf {
			if short, ours := strings.CutPrefix(name, f.arch+"."); ours && !f.read[name] && !isHarmless(short, v) {
				names = append(names, fmt.Sprintf("%s (%s)", name, brief(v)))
			}
		}
	}
	slices.Sort(names)
	return names
}

// brief is the beginning of a value as text.
func brief(v any) string { return fmt.Sprintf("%.40s", fmt.Sprint(v)) }

// unreadRope names the parameters of RoPE that no one has looked at. Sets of parameters, by the kind of layer, are looked at in turn.
func (f *fields) unreadRope(object string, params map[string]any) (names []string) {
	for name, v := range params {
		set, isSet := v.(map[string]any)
		switch {
		case isSet:
			names = append(names, f.unreadRope(object+"."+name, set)...)
		case !f.read[name] && !isHarmless(name, v):
			names = append(names, fmt.Sprintf("%s.%s (%s)", object, name, brief(v)))
		}
	}
	return names
}

// warnUnread notes the fields that were not read.
func (f *fields) warnUnread() {
	if names := f.unread(); len(names) > 0 {
		f.warnings = append(f.warnings, fmt.Sprintf("%s: not read: %s; where that changes what the model computes, its answers are wrong", f.name, strings.Join(names, ", ")))
	}
}

// layerStems are weights that the layers of any architecture have one of.
var layerStems = []string{"attn_norm.weight", "attn_q.weight", "attn_qkv.weight", "attn_output.weight", "attn_output_norm.weight", "ffn_norm.weight", "ffn_down.weight"}

// checkLayers refuses a configuration with fewer layers than the file has. Layers that predict further tokens, which follow the others in
// some files, are not the model's own.
func (m *Model) checkLayers(f *fields) error {
	if m.files == nil {
		return nil
	}
	field := f.arch + ".block_count"
	if f.isHF() {
		field = "num_hidden_layers"
	}
	if last := m.Config.Layers - 1; m.Config.Blocks != nil { // whose number may be told by their list alone
		if _, ok := m.Lookup(fmt.Sprintf("blk.%d.attn_norm.weight", last)); !ok {
			return fmt.Errorf("model: %s: it lists %d layers and the file has no weights of the last; correct field layers_block_type", f.name, m.Config.Layers)
		}
	}
	beyond := m.Config.Layers + m.MTPLayers()
	for _, stem := range layerStems {
		if _, ok := m.Lookup(fmt.Sprintf("blk.%d.%s", beyond, stem)); ok {
			return fmt.Errorf("model: %s: field %s says that there are %d layers and the file has weights of another; correct the field", f.name, field, m.Config.Layers)
		}
	}
	return nil
}

// drafts reports whether the file's layer of this number predicts further tokens: it has a matrix for a token and a hidden state together.
func (m *Model) drafts(layer int) bool {
	_, ok := m.tensor(fmt.Sprintf("blk.%d.nextn.eh_proj.weight", layer))
	return ok
}

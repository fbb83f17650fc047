package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// This file maps weights, by their names in the graph, which are GGUF's, to recipes over the tensors of a file.

// recipe says how a weight is made of the file's tensors; nil: the file does not have it.
func (m *Model) recipe(name string) recipe.Recipe {
	of, cut := m.part(name)
	t := m.stored(of)
	if t == nil || cut == nil {
		return t
	}
	return cut(t)
}

// part is the tensor, in GGUF's naming, that a weight is cut from, and how; its own name and nil where it is one by itself.
func (m *Model) part(name string) (of string, cut func(recipe.Recipe) recipe.Recipe) {
	if m.Arch.Part == nil {
		return name, nil
	}
	if of, cut = m.Arch.Part(stem(name), m.Config); cut == nil {
		return name, nil
	}
	if parts := strings.Split(name, "."); parts[0] == "blk" {
		of = strings.Replace(of, "N", parts[1], 1)
	}
	return of, cut
}

// stored says how a tensor in GGUF's naming is made of the file's; nil: the file does not have it.
func (m *Model) stored(name string) recipe.Recipe {
	if m.HF && name == "output.weight" && m.Config.Tied {
		return nil
	}
	if t, ok := m.tensor(name); ok {
		if m.HF && m.Arch.Recipe != nil {
			return m.Arch.Recipe(stem(name), t, m.Config)
		}
		if !m.HF && m.Config.SSM.Heads > 0 && slices.Contains(columnsInGGUF, stem(name)) {
			return recipe.Flat{Of: t}
		}
		return t
	}
	block, experts := strings.CutSuffix(name, "_exps.weight")
	if !experts {
		return nil
	}
	if r := m.halfOfExperts(block); r != nil {
		return r
	}
	// Each expert's matrix is a tensor by itself.
	var all recipe.Stack
	for e := range m.Config.Experts.Experts {
		t, ok := m.tensor(fmt.Sprintf("%s.%d.weight", block, e))
		if !ok && e == 0 {
			return nil
		}
		all = append(all, t) // one that is missing is missed by its name when the recipe is opened
	}
	return all
}

// halfOfExperts is the gates' or the other rows of a GGUF file's tensor that has both of each expert, the gates first; nil: it has none.
func (m *Model) halfOfExperts(block string) recipe.Recipe {
	both, half := strings.CutSuffix(block, "ffn_gate")
	i := 0
	if !half {
		both, half = strings.CutSuffix(block, "ffn_up")
		i = 1
	}
	both += "ffn_gate_up_exps.weight"
	t, ok := m.files.Tensor(both)
	n := m.Config.Experts.Experts
	if m.HF || !half || !ok || n < 1 || t.Rows%(2*n) != 0 {
		return nil
	}
	width := t.Rows / (2 * n)
	return recipe.RowsOfEach{Of: recipe.Tensor(both), Count: n, From: i * width, To: (i + 1) * width}
}

// tensor is what the file has under a weight's name: a tensor, or several that it is packed in; without any, the first of the names that
// it might have, and false.
func (m *Model) tensor(name string) (recipe.Recipe, bool) {
	names := []string{name}
	if m.HF {
		names = m.hfNames(name)
	} else if bare := m.bareName(name); bare != "" {
		names = append(names, bare)
	}
	for _, n := range names {
		if t, ok := m.files.Tensor(n); ok {
			scale := strings.TrimSuffix(n, "weight") + "scale"
			if _, scaled := m.files.Tensor(scale); scaled && t.Format.Descriptor().Scaled != quant.Invalid {
				return recipe.ScaledBlocks{Of: n, Scales: scale}, true
			}
			return recipe.Tensor(n), true
		}
		if r, ok := recipe.Packed(m.files, n, m.layout); ok {
			return r, true
		}
	}
	if len(names) == 0 {
		return recipe.Tensor(name), false
	}
	return recipe.Tensor(names[0]), false
}

// Untie has the model read a matrix of its own that makes the logits, in place of the table of embeddings, and is the name that it is to have.
func (m *Model) Untie() string {
	m.Config.Tied = false
	if !m.HF {
		return "output.weight"
	}
	return m.hfNames("output.weight")[0]
}

// stem is a weight's name without the numbers of layer and expert: "blk.3.ffn_up.7.weight" → "blk.N.ffn_up.E.weight".
func stem(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) > 2 && parts[0] == "blk" {
		parts[1] = "N"
		if hasExpert(parts) {
			parts[3] = "E"
		}
	}
	return strings.Join(parts, ".")
}

// hasExpert reports whether the parts of a weight's name are those of one expert's: "blk.3.ffn_up.7.weight".
func hasExpert(parts []string) bool {
	if len(parts) != 5 {
		return false
	}
	_, err := strconv.Atoi(parts[3])
	return err == nil
}

// hfNames lists what a Hugging Face file may call a weight: with the base model's prefix and without, by itself or as the
// language part of a multimodal model.
func (m *Model) hfNames(name string) []string {
	parts := strings.Split(name, ".")
	kind := parts[len(parts)-1] // weight or bias
	key := strings.TrimSuffix(stem(name), "."+kind)
	if hf, ok := m.Arch.Names[key+"."+kind]; ok {
		return placed(strings.Replace(hf, "N", parts[1], 1))
	}
	hf, ok := m.Arch.Names[key]
	if !ok {
		hf, ok = commonNames[key]
	}
	if !ok {
		return nil
	}
	var names []string
	for _, hf := range strings.Split(hf, "|") {
		if parts[0] == "blk" {
			hf = strings.Replace(hf, "N", parts[1], 1)
			if hasExpert(parts) {
				hf = strings.Replace(hf, "E", parts[3], 1)
			}
		}
		hf += "." + kind
		names = append(append(names, placed(hf)...), m.mtpNames(parts, hf)...)
	}
	return names
}

// mtpNames lists what a weight of a layer behind the model's own is called besides, hf as in any layer: Qwen's files count such layers apart.
func (m *Model) mtpNames(parts []string, hf string) []string {
	i := 0
	if parts[0] == "blk" {
		i, _ = strconv.Atoi(parts[1])
	}
	if i -= m.Config.Layers; i < 0 || parts[0] != "blk" {
		return nil
	}
	if parts[2] == "nextn" {
		one, ok := mtpNames[parts[3]]
		if !ok || i > 0 {
			return nil
		}
		return []string{one + "." + parts[len(parts)-1]}
	}
	return []string{strings.Replace(hf, fmt.Sprintf("model.layers.%s.", parts[1]), fmt.Sprintf("mtp.layers.%d.", i), 1)}
}

// mtpNames are Qwen's names of what is around its MTP layer.
var mtpNames = map[string]string{"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "shared_head_norm": "mtp.norm"}

// placed is a name by itself, without the base model's prefix, and as of the language part of a multimodal model.
func placed(hf string) []string {
	names := []string{hf, "language_model." + hf}
	if base, bare, ok := strings.Cut(hf, "."); ok && base != "lm_head" {
		names = append(names, bare, base+".language_model."+bare)
	}
	return names
}

// commonNames are the names of the Llama family, which most architectures share.
var commonNames = map[string]string{
	"blk.N.nextn.eh_proj":          "model.layers.N.eh_proj",
	"blk.N.nextn.enorm":            "model.layers.N.enorm",
	"blk.N.nextn.hnorm":            "model.layers.N.hnorm",
	"blk.N.nextn.shared_head_norm": "model.layers.N.shared_head.norm",
	"token_embd":                   "model.embed_tokens",
	"output_norm":                  "model.norm",
	"output":                       "lm_head",
	"blk.N.attn_norm":              "model.layers.N.input_layernorm",
	"blk.N.attn_q":                 "model.layers.N.self_attn.q_proj",
	"blk.N.attn_k":                 "model.layers.N.self_attn.k_proj",
	"blk.N.attn_v":                 "model.layers.N.self_attn.v_proj",
	"blk.N.attn_qkv":               "model.layers.N.self_attn.qkv_proj",
	"blk.N.attn_output":            "model.layers.N.self_attn.o_proj",
	"blk.N.attn_q_norm":            "model.layers.N.self_attn.q_norm",
	"blk.N.attn_k_norm":            "model.layers.N.self_attn.k_norm",
	"blk.N.ffn_gate_shexp":         "model.layers.N.mlp.shared_experts.gate_proj",
	"blk.N.ffn_up_shexp":           "model.layers.N.mlp.shared_experts.up_proj",
	"blk.N.ffn_down_shexp":         "model.layers.N.mlp.shared_experts.down_proj",
	"blk.N.ffn_norm":               "model.layers.N.post_attention_layernorm",
	"blk.N.ffn_gate":               "model.layers.N.mlp.gate_proj",
	"blk.N.ffn_up":                 "model.layers.N.mlp.up_proj",
	"blk.N.ffn_down":               "model.layers.N.mlp.down_proj",
}

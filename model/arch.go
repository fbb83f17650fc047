// Package model knows architectures: how each reads its configuration and which graph it is. One file per
// architecture, a row each in registry.go; blocks.go holds what they are composed of.
//
// A configuration comes from a Hugging Face config.json or from GGUF metadata. Both are read through the same calls
// (see fields), which name the field in both worlds; so reading one also says how to write the other.
package model

import (
	"fmt"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Arch is one architecture.
type Arch struct {
	Name  string   // GGUF's general.architecture: "llama"
	HF    []string // entries of config.json's architectures: "LlamaForCausalLM"
	Read  func(f *fields) *Config
	Build func(b *graph.Builder, c *Config) *graph.Value
	// Names maps weight stems to Hugging Face's, where they differ from commonNames; N stands for the layer, E for the expert.
	// A stem with .weight or .bias is mapped to a whole name.
	Names map[string]string
	// TextDefaults are for multimodal models, whose configuration has the language model's under text_config, without the
	// fields that are as transformers' class has them.
	TextDefaults map[string]any
	// Change says what a tensor of a Hugging Face file needs before it is the weight of this name; nil: nothing.
	Change func(stem string) graph.Change
}

// Tensors is a model file as far as a model looks into it: tensors by the file's own names.
type Tensors interface {
	Tensor(name string) (t quant.Tensor, ok bool)
}

// Model is an architecture with its configuration and the file its weights come from.
type Model struct {
	Arch    *Arch
	Config  *Config
	HF      bool           // the file uses Hugging Face's names
	Meta    map[string]any // the configuration as GGUF metadata
	files   Tensors        // nil: there are no weights, only a shape
	format  quant.Format   // of matrices when there are no weights
	experts quant.Format   // likewise of experts, where it is another; else Invalid
}

// Find implements graph.Finder over the model's file.
func (m *Model) Find(name string) (graph.Found, bool) {
	if m.files == nil {
		return m.imagine(name)
	}
	if !m.HF {
		t, ok := m.files.Tensor(name)
		return graph.Found{Format: t.Format, Rows: t.Rows, Cols: t.Cols, Source: graph.Source{Tensor: name}}, ok
	}
	if name == "output.weight" && m.Config.Tied {
		return graph.Found{}, false
	}
	for _, hf := range m.hfNames(name) {
		t, ok := m.files.Tensor(hf)
		if !ok {
			continue
		}
		f := graph.Found{Format: t.Format, Rows: t.Rows, Cols: t.Cols, Source: graph.Source{Tensor: hf}}
		if m.Arch.Change != nil {
			f.Source.Change = m.Arch.Change(stem(name))
		}
		m.reshape(&f)
		return f, true
	}
	return graph.Found{}, false
}

// reshape gives a weight the size and format that its change makes of the file's.
func (m *Model) reshape(f *graph.Found) {
	switch c := f.Source.Change; {
	case c == graph.Transpose:
		f.Rows, f.Cols = f.Cols, f.Rows
	case c == graph.PlusOne:
		f.Format = quant.F32 // 1 + w needs more bits than w has
	case c.OfExperts():
		_, every := c.Columns()
		f.Cols /= every
		if n := m.Config.Experts.Experts; c.Transposes() {
			f.Rows, f.Cols = n*f.Cols, f.Rows/max(n, 1)
		}
	}
}

// imagine finds any weight of a model without a file: matrices in the chosen format, vectors in F32.
func (m *Model) imagine(name string) (graph.Found, bool) {
	if name == "output.weight" && m.Config.Tied {
		return graph.Found{}, false
	}
	if strings.HasSuffix(name, ".bias") || strings.Contains(name, "norm") {
		return graph.Found{Format: quant.F32}, true
	}
	if m.experts != quant.Invalid && strings.HasSuffix(name, "_exps.weight") {
		return graph.Found{Format: m.experts}, true
	}
	return graph.Found{Format: m.format}, true
}

// stem is a weight's name without the numbers of layer and expert: "blk.3.ffn_up.7.weight" → "blk.N.ffn_up.E.weight".
func stem(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) > 2 && parts[0] == "blk" {
		parts[1] = "N"
		if len(parts) == 5 {
			parts[3] = "E"
		}
	}
	return strings.Join(parts, ".")
}

// hfNames lists what a Hugging Face file may call a weight: with the base model's prefix and without, by itself or as the
// language part of a multimodal model.
func (m *Model) hfNames(name string) []string {
	parts := strings.Split(name, ".")
	kind := parts[len(parts)-1] // weight or bias
	key := strings.TrimSuffix(stem(name), "."+kind)
	if hf, ok := m.Arch.Names[key+"."+kind]; ok {
		return []string{strings.Replace(hf, "N", parts[1], 1)}
	}
	hf, ok := m.Arch.Names[key]
	if !ok {
		hf, ok = commonNames[key]
	}
	if !ok {
		return nil
	}
	if parts[0] == "blk" {
		hf = strings.Replace(hf, "N", parts[1], 1)
		if len(parts) == 5 {
			hf = strings.Replace(hf, "E", parts[3], 1)
		}
	}
	hf += "." + kind
	names := []string{hf, "language_model." + hf}
	if base, bare, ok := strings.Cut(hf, "."); ok && base != "lm_head" {
		names = append(names, bare, base+".language_model."+bare)
	}
	return names
}

// commonNames are the names of the Llama family, which most architectures share.
var commonNames = map[string]string{
	"token_embd":        "model.embed_tokens",
	"output_norm":       "model.norm",
	"output":            "lm_head",
	"blk.N.attn_norm":   "model.layers.N.input_layernorm",
	"blk.N.attn_q":      "model.layers.N.self_attn.q_proj",
	"blk.N.attn_k":      "model.layers.N.self_attn.k_proj",
	"blk.N.attn_v":      "model.layers.N.self_attn.v_proj",
	"blk.N.attn_qkv":    "model.layers.N.self_attn.qkv_proj",
	"blk.N.attn_output": "model.layers.N.self_attn.o_proj",
	"blk.N.attn_q_norm": "model.layers.N.self_attn.q_norm",
	"blk.N.attn_k_norm": "model.layers.N.self_attn.k_norm",
	"blk.N.ffn_norm":    "model.layers.N.post_attention_layernorm",
	"blk.N.ffn_gate":    "model.layers.N.mlp.gate_proj",
	"blk.N.ffn_up":      "model.layers.N.mlp.up_proj",
	"blk.N.ffn_down":    "model.layers.N.mlp.down_proj",
}

// Options chooses what a graph is built for.
type Options struct {
	Act   graph.Type // of activations
	Cache graph.Type // of cached keys and values
	// AllHidden keeps the hidden states of every token, as a mean over a text needs; see graph.HiddenOfAll.
	AllHidden bool
}

// Graph builds the model's graph.
func (m *Model) Graph(o Options) (*graph.Graph, error) {
	b := graph.NewBuilder(m.Arch.Name, m.Find, o.Act, o.Cache)
	g, err := b.Finish(m.Arch.Build(b, m.Config))
	if err != nil || !o.AllHidden || m.Config.Encoder { // an encoder keeps them anyway
		return g, err
	}
	return graph.HiddenOfAll(g)
}

// FromHF reads a Hugging Face config.json. name is used in errors; files gives the weights.
func FromHF(name string, config []byte, files Tensors) (*Model, error) {
	f, err := hfFields(name, config)
	if err != nil {
		return nil, err
	}
	known := f.strings("architectures")
	for _, a := range registry {
		for _, hf := range a.HF {
			for _, k := range known {
				if hf == k {
					f.languagePart(a.TextDefaults)
					return read(a, f, files, true)
				}
			}
		}
	}
	return nil, fmt.Errorf("model: %s: architecture %s is not supported; supported are %s", name, quoted(known), strings.Join(HFNames(), ", "))
}

// FromGGUF reads GGUF metadata. name is used in errors; files gives the weights.
func FromGGUF(name string, meta map[string]any, files Tensors) (*Model, error) {
	arch, _ := meta["general.architecture"].(string)
	for _, a := range registry {
		if a.Name == arch && a.Read != nil {
			return read(a, ggufFields(name, arch, meta, files), files, false)
		}
	}
	return nil, fmt.Errorf("model: %s: architecture %q is not supported; supported are %s", name, arch, strings.Join(GGUFNames(), ", "))
}

// read lets an architecture read its configuration.
func read(a *Arch, f *fields, files Tensors, hf bool) (*Model, error) {
	c := a.Read(f)
	c.check(f)
	if files != nil && f.experts != quant.Invalid {
		f.fail("its experts are stored as %v in Hugging Face's layout, which is not read; take a GGUF file of it", f.experts)
	}
	if f.err != nil {
		return nil, f.err
	}
	return &Model{Arch: a, Config: c, HF: hf, Meta: f.written, files: files, experts: f.experts}, nil
}

// HFNames lists the Hugging Face architectures that are supported, GGUFNames those of GGUF files.
func HFNames() []string {
	var names []string
	for _, a := range registry {
		names = append(names, a.HF...)
	}
	sort.Strings(names)
	return names
}

// GGUFNames lists the GGUF architectures that are supported.
func GGUFNames() []string {
	seen := map[string]bool{}
	var names []string
	for _, a := range registry {
		if !seen[a.Name] {
			seen[a.Name] = true
			names = append(names, a.Name)
		}
	}
	sort.Strings(names)
	return names
}

func quoted(list []string) string {
	if len(list) == 0 {
		return "(none named)"
	}
	return fmt.Sprintf("%q", list)
}

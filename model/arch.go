// Package model knows architectures: how each reads its configuration and which graph it is. One file per
// architecture, a row each in registry.go; blocks.go holds what they are composed of.
//
// A configuration comes from a Hugging Face config.json or from GGUF metadata. Both are read through the same calls
// (see fields), which name the field in both worlds; so reading one also says how to write the other.
package model

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Arch is one architecture.
type Arch struct {
	Name  string               // GGUF's general.architecture: "llama"
	Moe   string               // what GGUF calls it where it has experts; "": Name
	HF    []string             // entries of config.json's architectures: "LlamaForCausalLM"
	Is    func(f *fields) bool // of a config.json with such an entry, where another architecture has it too, further down in registry; nil: it is this one
	Read  func(f *fields) *Config
	Build func(b *graph.Builder, c *Config) *graph.Value
	// Names maps weight stems to Hugging Face's, where they differ from commonNames; N stands for the layer, E for the expert.
	// A stem with .weight or .bias is mapped to a whole name. Where files differ the names that one may have are separated by |.
	Names map[string]string
	// TextDefaults are for multimodal models, whose configuration has the language model's under text_config, without the
	// fields that are as transformers' class has them.
	TextDefaults map[string]any
	// Recipe says how the tensor of a stem is made of what the Hugging Face file has under the name that Names has for it, t; nil: it is t.
	Recipe func(stem string, t recipe.Recipe, c *Config) recipe.Recipe
	// Part says which tensor, in GGUF's naming, a weight of a stem is cut from, and how, where files of both kinds have several in one;
	// nil: it is a tensor by itself.
	Part func(stem string, c *Config) (of string, cut func(recipe.Recipe) recipe.Recipe)
}

// Tensors is a model file as far as a model looks into it: tensors by the file's own names.
type Tensors interface {
	Tensor(name string) (t quant.Tensor, ok bool)
}

// Model is an architecture with its configuration and the file its weights come from.
type Model struct {
	Arch     *Arch
	Config   *Config
	HF       bool           // the file uses Hugging Face's names
	Meta     map[string]any // the configuration as GGUF metadata
	Warnings []string       // sentences about the configuration, for whoever loads the model
	files    Tensors        // nil: there are no weights, only a shape
	format   quant.Format   // of matrices when there are no weights
	experts  quant.Format   // likewise of experts, where it is another; else Invalid
	layout   recipe.Layout  // of quantised matrices of a Hugging Face file
}

// Lookup implements graph.Lookup over the model's file.
func (m *Model) Lookup(name string) (graph.Stored, bool) {
	if m.files == nil {
		return m.placeholder(name)
	}
	r := m.recipe(name)
	if r == nil {
		return graph.Stored{}, false
	}
	t, err := recipe.Open(r, m.files)
	if err != nil {
		return graph.Stored{Err: err}, true
	}
	return graph.Stored{Format: t.Format, Rows: t.Rows, Cols: t.Cols, Recipe: r}, true
}

// placeholder is any weight of a model without a file: matrices in the chosen format, vectors in F32.
func (m *Model) placeholder(name string) (graph.Stored, bool) {
	if name == "output.weight" && m.Config.Tied {
		return graph.Stored{}, false
	}
	if strings.HasSuffix(name, ".bias") || strings.Contains(name, "norm") || isRecurrentVector(name) || isScale(name) {
		return graph.Stored{Format: quant.F32}, true
	}
	if m.experts != quant.Invalid && strings.HasSuffix(name, "_exps.weight") {
		return graph.Stored{Format: m.experts}, true
	}
	return graph.Stored{Format: m.format}, true
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
	b := graph.NewBuilder(m.Arch.Name, m.Lookup, o.Act, o.Cache)
	g, err := b.Finish(m.Arch.Build(b, m.Config))
	if err != nil || !o.AllHidden || m.Config.Encoder { // an encoder keeps them anyway
		return g, err
	}
	return graph.HiddenOfAll(g)
}

// FromHF reads a Hugging Face config.json. name is used in errors; files gives the weights.
func FromHF(name string, config []byte, files Tensors) (*Model, error) {
	f, err := hfFields(name, config, files)
	if err != nil {
		return nil, err
	}
	known := f.strings("architectures")
	for _, a := range registry {
		for _, hf := range a.HF {
			for _, k := range known {
				if hf == k && (a.Is == nil || a.Is(f)) {
					layout := f.quantised()
					f.languagePart(a.TextDefaults)
					m, err := read(a, f, files, true)
					if err == nil {
						m.layout = layout
					}
					return m, err
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
		if (a.Name == arch || a.Moe == arch) && a.Read != nil {
			return read(a, ggufFields(name, arch, meta, files), files, false)
		}
	}
	return nil, fmt.Errorf("model: %s: architecture %q is not supported; supported are %s", name, arch, strings.Join(GGUFNames(), ", "))
}

// read lets an architecture read its configuration.
func read(a *Arch, f *fields, files Tensors, hf bool) (*Model, error) {
	c := a.Read(f)
	c.check(f)
	if f.err != nil {
		return nil, f.err
	}
	f.warnUnread()
	m := &Model{Arch: a, Config: c, HF: hf, Meta: f.written, Warnings: f.warnings, files: files, experts: f.experts}
	m.withoutHead(f)
	if err := m.checkLayers(f); err != nil {
		return m, err
	}
	return m, m.checkBiases(f)
}

// withoutHead has the embedding stand in for the output matrix of a model for embeddings, whose file has none.
func (m *Model) withoutHead(f *fields) {
	if !m.HF || m.files == nil || m.Config.Tied || m.Config.Encoder {
		return
	}
	_, head := m.tensor("output.weight")
	_, embedding := m.tensor("token_embd.weight")
	if head || !embedding {
		return
	}
	m.Config.Tied = true
	m.Warnings = append(m.Warnings, f.name+": the file has no output matrix (lm_head); the model makes embeddings, and text that it writes has no meaning")
}

// HFNames lists the Hugging Face architectures that are supported, GGUFNames those of GGUF files.
func HFNames() []string {
	var names []string
	for _, a := range registry {
		names = append(names, a.HF...)
	}
	sort.Strings(names)
	return slices.Compact(names)
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

// isScale reports whether a weight is a vector of factors or one of AltUp's few coefficients, which no file has in a block format.
func isScale(name string) bool {
	return strings.HasSuffix(name, ".scale") || strings.HasSuffix(name, "_scale.weight") || strings.HasSuffix(name, "_coef.weight")
}

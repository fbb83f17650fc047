package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/weights"
)

// contents is what ridge show says, in the form of its JSON. Sizes are in bytes.
type contents struct {
	Name          string             `json:"name"`
	Path          string             `json:"path"`
	Architecture  string             `json:"architecture"`
	Parameters    int64              `json:"parameters"`
	Bytes         int64              `json:"tensor_bytes"`
	BitsPerWeight float64            `json:"bits_per_weight"`
	Formats       formatMix          `json:"formats"`
	Sizes         *sizes             `json:"sizes,omitempty"`                    // absent: Ridge does not run the model
	Problem       string             `json:"problem,omitempty"`                  // why not
	CacheBytes    int64              `json:"cache_bytes_per_token"`              // keys and values in F16
	StateBytes    int64              `json:"state_bytes_per_sequence,omitempty"` // of recurrent layers, in F32
	CacheContext  int64              `json:"cache_bytes_of_a_context"`           // of the longest sequence, with what layers with windows keep of it
	Tokenizer     *tokenizerContents `json:"tokenizer"`                          // null: the model has none
	Template      string             `json:"chat_template"`
	ToolTemplate  string             `json:"tool_template,omitempty"` // for conversations with tools
	Sampling      string             `json:"recommended_sampling,omitempty"`
	Tensors       []tensorLine       `json:"tensors,omitempty"`
	Metadata      []metaLine         `json:"metadata,omitempty"`
}

// sizes are those of the architecture.
type sizes struct {
	Layers     int    `json:"layers"`
	Hidden     int    `json:"hidden"`
	FFN        int    `json:"feed_forward"`
	Activation string `json:"activation"`
	Heads      int    `json:"heads"`
	HeadDim    int    `json:"head_size"`
	Mask       *int32 `json:"mask_token,omitempty"` // of a masked diffusion model
	KVHeads    int    `json:"kv_heads"`
	Context    int    `json:"context"`
	Windows    []int  `json:"windows,omitempty"` // per layer in tokens, 0: none; absent when no layer has one
	Positions  string `json:"positions"`
	Tied       bool   `json:"tied_embeddings"`
	MTPLayers  int    `json:"mtp_layers,omitempty"` // behind the others: see model.MTPLayers
}

// formatMix is how many numbers are in each format.
type formatMix map[string]int64

func (m formatMix) String() string {
	names := make([]string, 0, len(m))
	all := int64(0)
	for name, n := range m {
		names = append(names, name)
		all += n
	}
	sort.Slice(names, func(i, j int) bool {
		return m[names[i]] > m[names[j]] || m[names[i]] == m[names[j]] && names[i] < names[j]
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.3g%%", name, 100*float64(m[name])/float64(all))
	}
	return strings.Join(names, ", ")
}

type tensorLine struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Shape  []int  `json:"shape"`
}

type metaLine struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// short is the value on a line: of long texts and lists the beginning.
func (m metaLine) short() string {
	b, err := json.Marshal(m.Value)
	if err != nil {
		return fmt.Sprint(m.Value) // NaN and infinities
	}
	const most = 80
	if r := []rune(string(b)); len(r) > most {
		return fmt.Sprintf("%s … (%d characters)", string(r[:most]), len(r))
	}
	return string(b)
}

// openModel opens the named model or the built-in one.
func openModel(args []string) (*modeldir.Dir, error) { return openNamed(args, modeldir.Open) }

// openNamed opens the named model by a function, or the built-in one.
func openNamed(args []string, open func(path string) (*modeldir.Dir, error)) (*modeldir.Dir, error) {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "ridge: no model named, using the built-in one")
		return modeldir.Builtin()
	}
	path, err := modelPath(args[0])
	if err != nil {
		return nil, err
	}
	return open(path)
}

// readContents looks at everything in a model.
func readContents(b *modeldir.Dir, tensors, metadata bool) (*contents, error) {
	c := &contents{Name: b.Name, Path: b.Source.Path, Formats: formatMix{}}
	if err := c.readModel(b); err != nil {
		c.Architecture, c.Problem = claimed(b), err.Error()
	}
	for _, name := range b.Source.Names() {
		info, data, err := b.Source.Raw(name)
		if err != nil {
			return nil, err
		}
		n := int64(1)
		for _, size := range info.Shape {
			n *= int64(size)
		}
		c.Parameters += n
		c.Bytes += int64(len(data))
		c.Formats[info.DType] += n
		if tensors {
			c.Tensors = append(c.Tensors, tensorLine{name, info.DType, info.Shape})
		}
	}
	c.BitsPerWeight = 8 * float64(c.Bytes) / float64(max(c.Parameters, 1))
	for _, key := range b.Source.Keys {
		if metadata {
			c.Metadata = append(c.Metadata, metaLine{key, b.Source.Metadata[key]})
		}
	}
	var err error
	if c.Sampling, err = samplingText(b); err != nil {
		return nil, err
	}
	return c, c.readText(b)
}

// readModel looks at the model; it fails where Ridge does not run it.
func (c *contents) readModel(b *modeldir.Dir) error {
	if b.NoModel != nil {
		return b.NoModel
	}
	g, err := b.Model.Graph(model.Options{Cache: graph.F16})
	if err != nil {
		return err
	}
	c.Architecture, c.Sizes = b.Model.Arch.Name, sizesOf(b.Model.Config)
	c.Sizes.MTPLayers = b.Model.MTPLayers()
	for _, cache := range g.Caches {
		c.CacheBytes += cache.RowBytes()
		c.StateBytes += cache.StateBytes()
	}
	c.CacheContext = g.CacheBytes(graph.CacheShape{Seqs: 1, Tokens: b.Model.Config.Context, PageSize: 16})
	return nil
}

// claimed is the architecture that the files name, whether it is known or not; "" for none.
func claimed(b *modeldir.Dir) string {
	if b.Source.Kind == weights.GGUF {
		name, _ := b.Source.Metadata["general.architecture"].(string)
		return name
	}
	var config struct {
		Architectures []string `json:"architectures"`
	}
	if json.Unmarshal(b.Source.Config, &config) != nil {
		return ""
	}
	return strings.Join(config.Architectures, ", ")
}

func sizesOf(c *model.Config) *sizes {
	s := &sizes{
		Layers: c.Layers, Hidden: c.Hidden, FFN: c.FFN, Activation: c.Act.String(), Heads: c.Heads, HeadDim: c.HeadDim,
		KVHeads: c.KVHeads, Context: c.Context, Positions: "learned", Tied: c.Tied,
	}
	for _, w := range c.Windows {
		if w > 0 {
			s.Windows = c.Windows
		}
	}
	if c.Diffusion != nil {
		s.Mask = &c.Diffusion.Mask
	}
	if c.Rotation != nil {
		s.Positions = ropeText(c.Rotation)
	}
	return s
}

// ropeText is "RoPE, theta 10000, 64 dims, interleaved", with its scaling behind.
func ropeText(r *graph.Rotation) string {
	pairs := "half"
	if r.Pairing == graph.AdjacentPairs {
		pairs = "interleaved"
	}
	text := fmt.Sprintf("RoPE, theta %g, %d dims, %s", r.Theta, r.Dim, pairs)
	if r.Scaling.Kind != graph.NoScaling {
		text += ", scaling " + r.Scaling.String()
	}
	return text
}

// samplingText is what the model's authors recommend, "" for nothing.
func samplingText(b *modeldir.Dir) (string, error) {
	g, err := b.Generation()
	if err != nil {
		return "", err
	}
	var parts []string
	if g.Greedy {
		parts = append(parts, "greedy")
	}
	for _, p := range []struct {
		name  string
		value *float64
	}{{"temperature", g.Temperature}, {"top-p", g.TopP}, {"min-p", g.MinP}, {"repetition penalty", g.RepetitionPenalty}} {
		if p.value != nil {
			parts = append(parts, fmt.Sprintf("%s %.4g", p.name, *p.value))
		}
	}
	if g.TopK != nil {
		parts = append(parts, fmt.Sprintf("top-k %d", *g.TopK))
	}
	return strings.Join(parts, ", "), nil
}

// windowText says which layers look back how far.
func (c *contents) windowText() string {
	count, window := 0, 0
	for _, w := range c.Sizes.Windows {
		if w > 0 {
			count, window = count+1, w
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(", %d layers look back %d tokens", count, window)
}

func (c *contents) templateText() string {
	switch {
	case c.Template == "" && c.ToolTemplate == "":
		return "none"
	case c.ToolTemplate == "":
		return fmt.Sprintf("%d characters", len([]rune(c.Template)))
	}
	return fmt.Sprintf("%d characters, and %d for conversations with tools", len([]rune(c.Template)), len([]rune(c.ToolTemplate)))
}

package model

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// MTP layers predict the token after the next one (multi-token prediction, DeepSeek-V3, arXiv:2412.19437): from the hidden state of a token, as
// the logits are made of it, and the embedding of the one after it. Files have them behind the model's own layers: model.layers.N with eh_proj, mtp.*
// or blk.N.nextn.*. Embedding and output matrix are the model's.

// MTPLayers is how many there are in the file.
func (m *Model) MTPLayers() int {
	if m.files == nil || m.Config.Encoder {
		return 0
	}
	n := 0
	for n < maxLayers && m.drafts(m.Config.Layers+n) {
		n++
	}
	return n
}

// MTPGraph is the first of them as a graph of its own. Its rows are tokens, each with the hidden state of the token before it as input; logits are of
// the token after. It keeps the rows that stand for the model's hidden states when it goes on from a token that it has predicted.
func (m *Model) MTPGraph(o Options) (*graph.Graph, error) {
	if m.MTPLayers() == 0 {
		return nil, fmt.Errorf("model: the file has no layers that predict further tokens (MTP): neither mtp.fc, nor eh_proj or nextn.eh_proj behind layer %d", m.Config.Layers-1)
	}
	c := m.Config.withMTPLayer()
	b := graph.NewBuilder(m.Arch.Name+" mtp", m.Lookup, o.Act, o.Cache)
	l := newLayer(b, c, m.Config.Layers)
	hidden := b.Input("hidden", c.hidden())
	x := product(b, l.name("nextn.eh_proj"), c.hidden(), nil, l.norm("nextn.enorm", embedding(b, c)), l.norm("nextn.hnorm", hidden))
	x = l.add("attn_sum", x, l.mtpAttention(l.norm("attn_norm", x)))
	ffnNorm := "ffn_norm"
	if !b.Has(l.name(ffnNorm) + ".weight") {
		ffnNorm = "post_attention_norm"
	}
	x = l.add("ffn_sum", x, l.feedForward(l.norm(ffnNorm, x)))
	if m.Config.Recurrent == nil {
		b.Keep(x)
	}
	y := l.norm("nextn.shared_head_norm", x)
	if m.Config.Recurrent != nil { // Qwen's: hidden states are behind the norm
		b.Keep(y)
	}
	b.Layer(graph.NoLayer)
	return b.Finish(logits(b, c, b.SelectRows("selected", y)))
}

// mtpAttention is the model's kind of attention.
func (l layer) mtpAttention(x *graph.Value) *graph.Value {
	switch {
	case l.c.Index.TopK > 0:
		y, _ := l.sparseAttention(x, nil)
		return y
	case l.c.Latent.KV > 0:
		return l.latentAttention(x)
	}
	return l.selfAttention(x)
}

// withMTPLayer is the configuration with one layer more, which looks back all the way and has experts if the model has any.
func (c *Config) withMTPLayer() *Config {
	more := *c
	more.Layers++
	more.Windows = append(slices.Clone(c.Windows), 0)
	if c.Dense != nil {
		more.Dense = append(slices.Clone(c.Dense), false)
	}
	if c.Recurrent != nil {
		more.Recurrent = append(slices.Clone(c.Recurrent), false)
	}
	if c.NoRope != nil {
		more.NoRope = append(slices.Clone(c.NoRope), false)
	}
	if c.Index.Shared != nil {
		more.Index.Shared = append(slices.Clone(c.Index.Shared), false)
	}
	return &more
}

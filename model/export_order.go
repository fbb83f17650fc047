package model

import (
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// interleave permutes the rows of queries and keys where a GGUF file holds them in another order than the model's own file: its readers
// rotate neighbours together, and the model rows that are half a head apart.
func (m *Model) interleave(e *Export, back *Config) {
	r := m.Config.Rotation
	if r == nil || r.Pairing != graph.HalfPairs || back.Rotation.Pairing != graph.AdjacentPairs {
		return
	}
	for i := range e.Tensors {
		x := &e.Tensors[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(stem(x.Name), "blk.N."), ".")
		if name == "attn_q" || name == "attn_k" {
			x.Recipe = recipe.Permute{Of: x.Recipe, Index: interleaved(x.Shape[0], m.Config.HeadDim, r.Dim)}
		}
	}
}

// interleaved is the order of n rows in heads of so many, of which the first dim rotate: those that rotate together, half of dim apart so
// far, become neighbours.
func interleaved(n, head, dim int) []int {
	index := make([]int, n)
	for i := range index {
		within := i % head
		index[i] = i
		if within < dim {
			index[i] = i - within + within/2 + within%2*dim/2
		}
	}
	return index
}

// tile puts value heads of gated delta layers into the order of GGUF files, in which the first of each key head come first, then the second of each,
// and so on. Hugging Face's files have those of a key head together.
func (m *Model) tile(e *Export) {
	o := m.Config.Delta
	heads := make([]int, o.ValueHeads)
	for h := range heads {
		heads[h] = h%o.KeyHeads*(o.ValueHeads/o.KeyHeads) + h/o.KeyHeads
	}
	// rows is the order of rows of heads of so many each, behind the first from.
	rows := func(from, each int) []int {
		index := make([]int, from+len(heads)*each)
		for i := range index {
			if index[i] = i; i >= from {
				index[i] = from + heads[(i-from)/each]*each + (i-from)%each
			}
		}
		return index
	}
	for i := range e.Tensors {
		x := &e.Tensors[i]
		switch stem(x.Name) {
		case "blk.N.attn_qkv.weight", "blk.N.ssm_conv1d.weight":
			x.Recipe = recipe.Permute{Of: x.Recipe, Index: rows(2*o.KeyHeads*o.KeySize, o.ValueSize)}
		case "blk.N.attn_gate.weight":
			x.Recipe = recipe.Permute{Of: x.Recipe, Index: rows(0, o.ValueSize)}
		case "blk.N.ssm_alpha.weight", "blk.N.ssm_beta.weight", "blk.N.ssm_a", "blk.N.ssm_dt.bias":
			x.Recipe = recipe.Permute{Of: x.Recipe, Index: heads}
		case "blk.N.ssm_out.weight":
			x.Recipe = recipe.PermuteColumns{Of: x.Recipe, Index: heads, Each: o.ValueSize}
		}
	}
}

package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// columnsInGGUF are vectors of Mamba 2 that GGUF files have as matrices: a column, or a row for each group.
var columnsInGGUF = []string{"blk.N.ssm_a", "blk.N.ssm_d", "blk.N.ssm_norm.weight"}

// shapeInGGUF gives a tensor the dimensions that llama.cpp's loader wants where they are not those of a plain vector or matrix: it compares all of
// them. The numbers and their order stay.
func (m *Model) shapeInGGUF(x *Exported) {
	if bare := m.bareName(x.Name); bare != "" {
		x.Name = bare
	}
	rows, cols := x.Size()
	n, o := rows*cols, m.Config.SSM
	switch stem(x.Name) {
	case "blk.N.ssm_a", "blk.N.ssm_d": // of Mamba 2: a column
		if o.Heads > 0 {
			x.Shape = []int{n, 1}
		}
	case "blk.N.ssm_norm.weight": // of Mamba 2: a row for each group
		if o.Heads > 0 {
			x.Shape = []int{o.Groups, n / o.Groups}
		}
	case "blk.N.ssm_conv1d_q.weight", "blk.N.ssm_conv1d_k.weight", "blk.N.ssm_conv1d_v.weight": // channels × 1 × width
		x.Shape = []int{rows, 1, cols}
	case "altup_proj.weight", "altup_unembd_proj.weight": // a matrix for each stream but one
		x.Shape = []int{rows / cols, cols, cols}
	}
}

// unusedKV are the matrices and norms of keys and values that layers which share an earlier one's have in Gemma 3n's files. No graph uses them, but
// llama.cpp loads them: what transformers saves has none, and zeros are written.
func (m *Model) unusedKV(known []Exported) (list []Exported) {
	c := m.Config
	if m.Arch != &gemma3n || c.SharedKV == 0 {
		return nil
	}
	for _, name := range []string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"} {
		first := slices.IndexFunc(known, func(x Exported) bool { return x.Name == "blk.0."+name })
		for i := c.Layers - c.SharedKV; first >= 0 && i < c.Layers; i++ {
			x := Exported{Name: fmt.Sprintf("blk.%d.%s", i, name), Shape: slices.Clone(known[first].Shape), Format: quant.F32}
			if stored, ok := m.Lookup(x.Name); ok && stored.Err == nil {
				x.Format, x.Recipe = stored.Format, stored.Recipe
			} else {
				rows, cols := x.Size()
				x.Values = make([]float32, rows*cols)
			}
			list = append(list, x)
		}
	}
	return list
}

// padPerLayer gives the table of layers' own embeddings a row for each token, as llama.cpp wants it: tokens beyond the table look up its first row, so that is
// what their rows are. It reports whether there were such tokens.
func (m *Model) padPerLayer(list []Exported) bool {
	rows, all := m.Config.PerLayerRows, m.Config.Vocab
	at := slices.IndexFunc(list, func(x Exported) bool { return x.Name == "per_layer_token_embd.weight" })
	if at < 0 || rows >= all {
		return false
	}
	x := &list[at]
	if x.Shape[0] = all; x.Recipe != nil {
		index := make([]int, all)
		for i := range rows {
			index[i] = i
		}
		x.Recipe = recipe.Permute{Of: x.Recipe, Index: index}
	}
	return true
}

// unusedPositions leaves out the rows of a table of positions before the one of position 0, as GGUF's files do. It reports whether there were any.
func (m *Model) unusedPositions(list []Exported) bool {
	first := m.Config.FirstPosition
	at := slices.IndexFunc(list, func(x Exported) bool { return x.Name == "position_embd.weight" })
	if at < 0 || first == 0 {
		return false
	}
	x := &list[at]
	if x.Recipe != nil {
		x.Recipe = recipe.Rows{Of: x.Recipe, From: first, To: x.Shape[0]}
	}
	x.Shape[0] -= first
	return true
}

// zeroBiases are biases of state space layers' convolutions that have none: llama.cpp refuses a file without them, or crashes when it computes.
func (m *Model) zeroBiases(known []Exported) (list []Exported) {
	if c := m.Config; c.ConvBias || c.SSM.Heads == 0 && c.Scan == (Scan{}) {
		return nil
	}
	for _, x := range known {
		if stem(x.Name) == "blk.N.ssm_conv1d.weight" {
			n, _ := x.Size()
			list = append(list, Exported{Name: strings.TrimSuffix(x.Name, "weight") + "bias", Shape: []int{n}, Format: quant.F32, Values: make([]float32, n)})
		}
	}
	return list
}

// bareName is what llama.cpp calls a tensor of this architecture without the usual ending .weight; "": it has that.
func (m *Model) bareName(name string) string {
	if m.Arch.Name == "falcon-h1" && stem(name) == "blk.N.ffn_norm.weight" {
		return strings.TrimSuffix(name, ".weight")
	}
	return ""
}

package model

import (
	"fmt"

	"github.com/ridge-llm/ridge/weights/recipe"
)

// checkBiases holds what config.json says of the biases of attention and MLPs to the file's tensors. One that is wanted and missing is refused; one that is
// there and not used is warned of, unless it is zero: some quantisers write such for every matrix.
func (m *Model) checkBiases(f *fields) error {
	if !m.HF || m.files == nil {
		return nil
	}
	c, warned := m.Config, false
	for i := range c.Layers {
		for _, of := range []struct {
			field  string
			stems  []string
			wanted bool
		}{
			{"attention_bias", []string{"attn_q", "attn_k", "attn_v", "attn_qkv"}, c.QKVBias},
			{"attention_bias", []string{"attn_output"}, c.OutBias},
			{"mlp_bias", []string{"ffn_gate", "ffn_up", "ffn_down"}, c.MLPBias},
		} {
			for _, stem := range of.stems {
				name := fmt.Sprintf("blk.%d.%s", i, stem)
				bias, there := m.tensor(name + ".bias")
				_, matrix := m.tensor(name + ".weight")
				switch {
				case of.wanted && matrix && !there:
					return fmt.Errorf("model: %s: there are biases by field %s, field use_bias or the architecture, and the file has no tensor %s; correct the field, or take a file that is whole", f.name, of.field, bias)
				case there && !of.wanted && !warned && !m.isZero(bias):
					warned = true
					m.Warnings = append(m.Warnings, fmt.Sprintf("%s: not used: tensor %s and others, since there are no such biases by field %s, field use_bias or the architecture; where there should be, answers are wrong", f.name, bias, of.field))
				}
			}
		}
	}
	return nil
}

// isZero reports whether a recipe is a tensor of the file of which all numbers are 0.
func (m *Model) isZero(r recipe.Recipe) bool {
	name, plain := r.(recipe.Tensor)
	if !plain {
		return false
	}
	t, _ := m.files.Tensor(string(name))
	for _, v := range t.Floats() {
		if v != 0 {
			return false
		}
	}
	return true
}

// Package outliers gives a model outlier features, as large ones have them: some columns of the inputs of its layers' matrices become large, without
// what the model computes changing.
package outliers

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/quant"
)

// layer names the tensors of a layer: its norms, and the matrices that read what each makes.
type layer struct {
	norm     string
	matrices []string
}

var (
	gguf = []layer{{"blk.%d.attn_norm.weight", []string{"blk.%d.attn_q.weight", "blk.%d.attn_k.weight", "blk.%d.attn_v.weight"}}, {"blk.%d.ffn_norm.weight", []string{"blk.%d.ffn_gate.weight", "blk.%d.ffn_up.weight"}}}
	hf   = []layer{
		{"model.layers.%d.input_layernorm.weight", []string{"model.layers.%d.self_attn.q_proj.weight", "model.layers.%d.self_attn.k_proj.weight", "model.layers.%d.self_attn.v_proj.weight"}},
		{"model.layers.%d.post_attention_layernorm.weight", []string{"model.layers.%d.mlp.gate_proj.weight", "model.layers.%d.mlp.up_proj.weight"}},
	}
)

// Add multiplies columns of the norms of a Llama by a power of two, and divides the columns of the matrices behind them by it. What it changes becomes F32. It
// returns the tensors that it replaced, by their names.
func Add(dir *modeldir.Dir, columns []int, by float32) (map[string]quant.Tensor, error) {
	if f, _ := math.Frexp(float64(by)); f != 0.5 {
		return nil, fmt.Errorf("outliers: a factor of %g; a power of two is wanted, so that nothing is rounded", by)
	}
	names := gguf
	if _, ok := dir.Tensor("model.norm.weight"); ok {
		names = hf
	}
	changed := map[string]quant.Tensor{}
	scale := func(name string, by float32) error {
		t, ok := dir.Tensor(name)
		if !ok {
			return fmt.Errorf("outliers: the model has no tensor %s", name)
		}
		x := t.Floats()
		for r := range t.Rows {
			for _, c := range columns {
				x[r*t.Cols+c] *= by
			}
		}
		changed[name] = quant.FromFloats(x, t.Rows, t.Cols)
		dir.Replace(name, changed[name])
		return nil
	}
	for i := 0; ; i++ {
		if _, ok := dir.Tensor(fmt.Sprintf(names[0].norm, i)); !ok {
			return changed, nil
		}
		for _, l := range names {
			if err := scale(fmt.Sprintf(l.norm, i), by); err != nil {
				return nil, err
			}
			for _, m := range l.matrices {
				if err := scale(fmt.Sprintf(m, i), 1/by); err != nil {
					return nil, err
				}
			}
		}
	}
}

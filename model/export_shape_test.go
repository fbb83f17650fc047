package model_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// TestShapesInGGUF: the dimensions that llama.cpp's loader compares, of tensors that are not plain matrices there.
func TestShapesInGGUF(t *testing.T) {
	for _, c := range []struct {
		shape, tensor string
		want          []int
	}{
		{"gemma-3n-e2b", "altup_proj.weight", []int{3, 2048, 2048}},
		{"gemma-3n-e2b", "blk.29.attn_k.weight", []int{512, 2048}}, // of a layer that shares an earlier one's keys
		{"gemma-3n-e2b", "blk.29.attn_k_norm.weight", []int{256}},
		{"gemma-3n-e2b", "per_layer_token_embd.weight", []int{262400, 30 * 256}}, // the model has 262,144 rows
		{"qwen3.5-0.8b", "blk.0.ssm_a", []int{16}},
	} {
		m, err := model.Shape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Export()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(e.Tensors, func(x model.Exported) bool { return x.Name == c.tensor })
		if i < 0 || !slices.Equal(e.Tensors[i].Shape, c.want) {
			t.Errorf("%s: tensor %s is number %d and not %v", c.shape, c.tensor, i, c.want)
		}
	}
	b, err := modeldir.Open(filepath.Join("..", "internal", "check", "testdata", "kimi-linear"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	e, err := b.Model.Export()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range e.Tensors {
		if x.Name == "blk.0.ssm_conv1d_q.weight" && !slices.Equal(x.Shape, []int{32, 1, 4}) {
			t.Errorf("%s is %v, and 32 × 1 × 4 is what llama.cpp reads", x.Name, x.Shape)
		}
	}
}

// merged is a GGUF file's tensors where gates and ups of all experts are one.
type merged struct{ experts, width, hidden int }

func (f merged) Tensor(name string) (quant.Tensor, bool) {
	rows, ok := map[string]int{"blk.0.ffn_gate_up_exps.weight": f.experts * 2 * f.width, "token_embd.weight": 96}[name]
	return quant.Tensor{Format: quant.F32, Rows: rows, Cols: f.hidden, Data: make([]byte, 4*rows*f.hidden)}, ok
}

// TestGateUpExperts: a GGUF file may have gates and ups of experts in one tensor, of each expert its gate first.
func TestGateUpExperts(t *testing.T) {
	m, err := model.FromGGUF("m.gguf", map[string]any{
		"general.architecture": "qwen3moe", "qwen3moe.block_count": uint32(1), "qwen3moe.embedding_length": uint32(32), "qwen3moe.context_length": uint32(64),
		"qwen3moe.attention.head_count": uint32(2), "qwen3moe.attention.head_count_kv": uint32(2), "qwen3moe.attention.key_length": uint32(16),
		"qwen3moe.feed_forward_length": uint32(64), "qwen3moe.expert_feed_forward_length": uint32(8), "qwen3moe.expert_count": uint32(4),
		"qwen3moe.expert_used_count": uint32(2), "qwen3moe.attention.layer_norm_rms_epsilon": float32(1e-6), "qwen3moe.vocab_size": uint32(96),
	}, merged{4, 8, 32})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"blk.0.ffn_gate_exps.weight": "blk.0.ffn_gate_up_exps.weight[each of 4, 0:8]",
		"blk.0.ffn_up_exps.weight":   "blk.0.ffn_gate_up_exps.weight[each of 4, 8:16]",
	} {
		w, ok := m.Lookup(name)
		if !ok || w.Err != nil || w.Recipe.String() != want || w.Rows != 4*8 || w.Cols != 32 {
			t.Errorf("%s is %v, %d × %d, %v; want %s", name, w.Recipe, w.Rows, w.Cols, w.Err, want)
		}
	}
	if w, ok := m.Lookup("blk.0.ffn_down_exps.weight"); ok {
		t.Errorf("there is no matrix of downs, and it is %v", w.Recipe)
	}
}

package model_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// TestPeerRequires: keys and tensors without which llama.cpp refuses a file, crashes or computes something else. Each was found by loading the
// files there (bench/roundtrip).
func TestPeerRequires(t *testing.T) {
	for _, c := range []struct {
		model   string
		meta    map[string]any
		tensors map[string][]int // name → shape
	}{
		{"bert", map[string]any{"tokenizer.ggml.token_type_count": uint32(2)}, map[string][]int{"token_types.weight": {2, 32}}},
		{"roberta", map[string]any{"bert.context_length": uint32(48), "tokenizer.ggml.token_type_count": uint32(1)}, // no rows before that of position 0
			map[string][]int{"position_embd.weight": {48, 32}, "token_types.weight": {32}}},
		{"qwen3.5-wide", map[string]any{"qwen35.attention.recurrent_layers": []bool{true, false, true, true}}, nil}, // not every n-th
		{"mamba-bias", nil, map[string][]int{"blk.0.ssm_conv1d.bias": {64}}},                                        // which the model has not
		{"jamba-bias", nil, map[string][]int{"blk.0.ssm_conv1d.bias": {64}}},
		{"granite-hybrid-rope", map[string]any{"granitehybrid.rope.scaling.finetuned": true}, map[string][]int{"blk.0.ssm_conv1d.bias": {96}}},
	} {
		b, err := modeldir.Open(filepath.Join("..", "internal", "check", "testdata", c.model))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		e, err := b.Model.Export()
		if err != nil {
			t.Errorf("%s: %v", c.model, err)
			continue
		}
		for key, want := range c.meta {
			if got := e.Meta[key]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v and should be %v", c.model, key, got, want)
			}
		}
		for name, want := range c.tensors {
			i := slices.IndexFunc(e.Tensors, func(x model.Exported) bool { return x.Name == name })
			if i < 0 || !slices.Equal(e.Tensors[i].Shape, want) {
				t.Errorf("%s: tensor %s is number %d and not of the shape %v", c.model, name, i, want)
			}
		}
	}
}

// TestRecurrentLayersListed: the layers with a state come from the list in a GGUF file, where one of the wrong length is refused; it counts layers
// that predict further tokens.
func TestRecurrentLayersListed(t *testing.T) {
	meta := map[string]any{
		"general.architecture": "qwen35", "qwen35.block_count": uint32(3), "qwen35.embedding_length": uint32(32), "qwen35.context_length": uint32(64),
		"qwen35.attention.head_count": uint32(2), "qwen35.attention.head_count_kv": uint32(2), "qwen35.attention.key_length": uint32(16), "qwen35.nextn_predict_layers": uint32(1),
		"qwen35.feed_forward_length": uint32(64), "qwen35.attention.layer_norm_rms_epsilon": float32(1e-6), "qwen35.vocab_size": uint32(96),
		"qwen35.ssm.group_count": uint32(2), "qwen35.ssm.state_size": uint32(8), "qwen35.ssm.time_step_rank": uint32(2), "qwen35.ssm.inner_size": uint32(16),
		"qwen35.ssm.conv_kernel": uint32(4), "qwen35.full_attention_interval": uint32(4), "qwen35.attention.recurrent_layers": []bool{false, true, false},
	}
	m, err := model.FromGGUF("m.gguf", meta, merged{4, 8, 32})
	if err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, true}; !slices.Equal(m.Config.Recurrent, want) {
		t.Errorf("layers with a state are %v and the file lists %v", m.Config.Recurrent, want)
	}
	meta["qwen35.attention.recurrent_layers"] = []bool{false, true}
	if _, err := model.FromGGUF("m.gguf", meta, merged{4, 8, 32}); err == nil || err.Error() == "" {
		t.Error("a list of two layers for three was taken")
	}
}

package model_test

import (
	"fmt"
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
		"qwen35.rope.dimension_sections": []int32{11, 11, 10, 0},
	}
	m, err := model.FromGGUF("m.gguf", meta, merged{4, 8, 32})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Warnings) > 0 {
		t.Errorf("%q, and llama.cpp's converter writes nothing else", m.Warnings)
	}
	if want := []bool{false, true}; !slices.Equal(m.Config.Recurrent, want) {
		t.Errorf("layers with a state are %v and the file lists %v", m.Config.Recurrent, want)
	}
	meta["qwen35.attention.recurrent_layers"] = []bool{false, true}
	if _, err := model.FromGGUF("m.gguf", meta, merged{4, 8, 32}); err == nil || err.Error() == "" {
		t.Error("a list of two layers for three was taken")
	}
}

// TestIndexerTypesListed: which layers take the choice of the layer before is said in the list that llama.cpp reads; files of GLM 5.2 without one have that
// model's pattern there and here.
func TestIndexerTypesListed(t *testing.T) {
	config := func(context int, types string) []byte {
		return fmt.Appendf(nil, `{"architectures": ["GlmMoeDsaForCausalLM"], "hidden_size": 64, "intermediate_size": 160, "moe_intermediate_size": 48, "num_hidden_layers": 7,
			"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
			"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
			"first_k_dense_replace": 1, "index_head_dim": 128, "index_n_heads": 4, "index_topk": 16, "vocab_size": 320, "rms_norm_eps": 1e-5,
			"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "max_position_embeddings": %d%s}`, context, types)
	}
	for _, c := range []struct {
		context        int
		types          string
		listed, shared []bool // listed: the key's value, or nil; shared: without the key
	}{
		{4096, ``, nil, nil},
		{4096, `, "indexer_types": ["full", "shared", "full", "shared", "full", "shared", "full"]`, []bool{true, false, true, false, true, false, true}, nil},
		{1 << 20, ``, []bool{true, true, true, true, true, true, true}, []bool{false, false, false, true, true, true, false}},
	} {
		m, err := model.FromConfig("config.json", config(c.context, c.types))
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Export() // reads back what it writes
		if err != nil {
			t.Fatal(err)
		}
		const key = "glm-dsa.attention.indexer.types"
		if got, _ := e.Meta[key].([]bool); !slices.Equal(got, c.listed) {
			t.Errorf("context %d%s: %s is %v and should be %v", c.context, c.types, key, got, c.listed)
		}
		delete(e.Meta, key)
		without, err := model.FromGGUF("m.gguf", e.Meta, merged{8, 48, 64})
		if err != nil {
			t.Fatal(err)
		}
		if got := without.Config.Index.Shared; !slices.Equal(got, c.shared) {
			t.Errorf("context %d%s: without the list, layers that share are %v and should be %v", c.context, c.types, got, c.shared)
		}
		e.Meta[key] = []bool{true, false}
		if _, err := model.FromGGUF("m.gguf", e.Meta, merged{8, 48, 64}); err == nil {
			t.Error("a list of two layers for seven was taken")
		}
	}
}

// TestWindowedLayersListed: llama.cpp's converter lists the layers with windows of OLMo 3 and EXAONE 4, where other files have a number.
func TestWindowedLayersListed(t *testing.T) {
	b, err := modeldir.Open(filepath.Join("..", "internal", "check", "testdata", "olmo3"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	e, err := b.Model.Export()
	if err != nil {
		t.Fatal(err)
	}
	const key = "olmo2.attention.sliding_window_pattern"
	for _, sliding := range [][]bool{{true, true, true, false}, {false, true, false, true}, {true}} {
		e.Meta[key] = sliding
		m, err := model.FromGGUF("m.gguf", e.Meta, merged{4, 8, 32})
		if len(sliding) != b.Model.Config.Layers {
			if err == nil {
				t.Errorf("a list of %d layers was taken", len(sliding))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, window := range m.Config.Windows {
			if window > 0 != sliding[i] {
				t.Errorf("layer %d has a window of %d and the list is %v", i, window, sliding)
			}
		}
	}
}

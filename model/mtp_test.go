package model

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestMTPNames: layers that predict further tokens are found under DeepSeek's names, Qwen's and GGUF's, and are not the model's own.
func TestMTPNames(t *testing.T) {
	config := []byte(`{"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "vocab_size": 9, "num_attention_heads": 2, "num_hidden_layers": 2,
		"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu"}`)
	for name, want := range map[string]int{"model.layers.2.eh_proj.weight": 1, "mtp.fc.weight": 1, "model.layers.1.eh_proj.weight": 0, "fc.weight": 0} {
		files := namedTensors{name: {Format: quant.F32, Rows: 8, Cols: 16}}
		m, err := FromHF("config.json", config, files)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.MTPLayers(); got != want {
			t.Errorf("%s: %d MTP layers, want %d", name, got, want)
		}
	}
	gguf := &Model{Arch: &llama, Config: &Config{Layers: 2}, files: namedTensors{"blk.2.nextn.eh_proj.weight": {}}}
	if got := gguf.MTPLayers(); got != 1 {
		t.Errorf("GGUF: %d MTP layers, want 1", got)
	}
}

// namedTensors is a file's tensors.
type namedTensors map[string]quant.Tensor

func (f namedTensors) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }

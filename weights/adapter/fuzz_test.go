package adapter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
)

// FuzzPEFT: any adapter_config.json beside any tensors is refused, or every module of the adapter is whole.
func FuzzPEFT(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, weightsFile)
	tensor := func(name string, rows, cols int) tensorfile.Tensor {
		return tensorfile.Tensor{Name: "base_model.model." + name, DType: "F32", Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)}
	}
	if err := tensorfile.Write(path, []tensorfile.Tensor{tensor("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 4), tensor("model.layers.0.self_attn.q_proj.lora_B.weight", 4, 2),
		tensor("model.embed_tokens.token_adapter.trainable_tokens_delta", 2, 4)}); err != nil {
		f.Fatal(err)
	}
	tensors, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for _, config := range []string{
		`{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "trainable_token_indices": [3, 1]}`,
		`{"peft_type": "LORA", "r": 8, "lora_alpha": 4, "use_rslora": true, "rank_pattern": {"layers.0.self_attn.q_proj": 2}, "alpha_pattern": {".*q_proj": 3}, "target_modules": "all-linear"}`,
		`{"peft_type": "LORA", "r": 2, "target_modules": ".*\\.[qv]_proj", "layers_to_transform": [0, 2], "layers_pattern": "layers", "alora_invocation_tokens": [5, 6], "trainable_token_indices": {"embed_tokens": [7, 8]}}`,
	} {
		f.Add([]byte(config), tensors)
	}
	f.Fuzz(func(t *testing.T, config, tensors []byte) {
		for name, data := range map[string][]byte{configFile: config, weightsFile: tensors} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := Open(dir)
		if err != nil {
			return
		}
		defer a.Close()
		for name, m := range a.Modules {
			if len(m.A.Data) > 0 && (m.A.Rows < 1 || m.A.Cols < 1 || m.B.Rows < 1 || m.B.Cols < 1 || m.Scale != m.Scale) || len(m.Tokens) != m.Rows.Rows {
				t.Errorf("module %q is %+v", name, m)
			}
		}
	})
}

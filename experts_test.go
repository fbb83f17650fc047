package ridge

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
)

// expertLayers is how many layers manyExperts has.
const expertLayers = 8

// manyExperts is a folder of a model whose layers have 2 MB of attention and 2.4 MB of experts, all of which a token passes, so that a CPU takes longer for either than the reference is said to launch.
func manyExperts(t *testing.T) string {
	t.Helper()
	const hidden, heads, experts, ffn, vocab = 128, 2048, 16, 192, 128
	var all []tensorfile.Tensor
	add := func(name string, mean float32, shape ...int) {
		n := 1
		for _, s := range shape {
			n *= s
		}
		data := make([]byte, 0, 2*n)
		for i := range n {
			x := mean + float32(math.Sin(float64(7*i+len(all)))/8)
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(x)>>16))
		}
		all = append(all, tensorfile.Tensor{Name: name, DType: "BF16", Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", 0, vocab, hidden)
	for i := range expertLayers {
		at := func(name string) string { return fmt.Sprintf("model.layers.%d.%s.weight", i, name) }
		for name, shape := range map[string][2]int{"q": {heads, hidden}, "k": {heads, hidden}, "v": {heads, hidden}, "o": {hidden, heads}} {
			add(at("self_attn."+name+"_proj"), 0, shape[0], shape[1])
		}
		for name, n := range map[string]int{"self_attn.q_norm": 64, "self_attn.k_norm": 64, "input_layernorm": hidden, "post_attention_layernorm": hidden} {
			add(at(name), 1, n)
		}
		add(at("mlp.gate"), 0, experts, hidden)
		for e := range experts {
			add(at(fmt.Sprintf("mlp.experts.%d.gate_proj", e)), 0, ffn, hidden)
			add(at(fmt.Sprintf("mlp.experts.%d.up_proj", e)), 0, ffn, hidden)
			add(at(fmt.Sprintf("mlp.experts.%d.down_proj", e)), 0, hidden, ffn)
		}
	}
	add("model.norm.weight", 1, hidden)
	words := map[string]int{}
	for i := range vocab {
		words[fmt.Sprintf("t%d", i)] = i
	}
	dir := t.TempDir()
	for name, v := range map[string]any{
		"config.json": map[string]any{
			"architectures": []string{"Qwen3MoeForCausalLM"}, "hidden_size": hidden, "intermediate_size": 64, "moe_intermediate_size": ffn, "num_experts": experts, "num_experts_per_tok": experts,
			"num_hidden_layers": expertLayers, "num_attention_heads": heads / 64, "num_key_value_heads": heads / 64, "head_dim": 64, "vocab_size": vocab, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
			"hidden_act": "silu", "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []int{}, "rope_theta": 1e4, "tie_word_embeddings": true,
		},
		"tokenizer.json": map[string]any{
			"model":         map[string]any{"type": "BPE", "vocab": words, "merges": []string{}},
			"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false}, "decoder": map[string]any{"type": "ByteLevel"},
		},
	} {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tensorfile.Write(filepath.Join(dir, "model.safetensors"), all); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAutoCPUExperts: of a model with experts all layers are on the GPU without the experts of as few first layers as have no room, where that takes less time than fewer whole layers; with the
// experts of one layer more they have none.
func TestAutoCPUExperts(t *testing.T) {
	path := manyExperts(t)
	fast := backend.Peaks{Int8: 1e15, FP8: 1e15, BF16: 1e15, F32: 1e14, Read: 4e12}
	found, before, text := 0, 1<<10, ""
	for beside := int64(12 << 20); beside <= 66<<20; beside += 3 << 20 {
		m, notes, err := loadPathBeside(t, path, kernelSlack+beside, fast, Options{GPULayers: AutoGPULayers, Context: 128, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		text += notes
		experts := before // also where whole layers on the CPU are cheaper, as they may be by this machine's peaks
		switch {
		case m.split == nil && m.device.Info().Name == "ref":
			experts = 0
		case m.split != nil && m.split.last == m.split.layers:
			found++
			experts = m.split.experts
			more := Options{Backend: "ref", GPULayers: GPULayers(m.split.layers), CPUExperts: CPUExperts(experts - 1), Context: 128, Parallel: 1}
			if _, err := m.gpuRoom(more, m.device, m.split.layers, 1); err == nil {
				t.Errorf("there is room for the experts of one layer more than all but %d", experts)
			}
			if !strings.Contains(notes, "all 8 layers without the") {
				t.Errorf("what was chosen is not said: %q", notes)
			}
		}
		if experts > before {
			t.Errorf("with more memory the experts of %d layers are on the CPU, and of %d were before", experts, before)
		}
		before = experts
	}
	if found < 3 || before != 0 {
		t.Errorf("%d sizes of memory had all layers but some experts on the GPU, and at last %d were not:\n%s", found, before, text)
	}
}

// TestTooManyExperts: a GPU without room for a model with experts is told by which number of layers the experts are on the CPU where it has.
func TestTooManyExperts(t *testing.T) {
	path := manyExperts(t)
	_, _, err := loadPathBeside(t, path, kernelSlack+48<<20, backend.Peaks{}, Options{CPUExperts: 1, Context: 128, Parallel: 1})
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "all 8 layers without the experts of the first 1 take ") {
		t.Fatalf("the experts of 7 layers in 48 MiB: %v", err)
	}
	found := false
	for _, a := range e.Alternatives {
		if a.Options.CPUExperts > 1 {
			found = true
			if a.Flags != fmt.Sprintf("--n-cpu-moe %d", a.Options.CPUExperts) {
				t.Errorf("the experts of %d layers by %q", a.Options.CPUExperts, a.Flags)
			}
			if _, _, err := loadPathBeside(t, path, kernelSlack+48<<20, backend.Peaks{}, a.Options); err != nil {
				t.Errorf("what was proposed, %s, has no room: %v", a, err)
			}
		}
	}
	if !found {
		t.Errorf("no other number of layers is proposed: %v", err)
	}
}
